# redlatch.bash - completion of redlatch(1) for bash; what may stand where is redlatch-complete's to know.

_redlatch()
{
    local cur words cword line word before
    _get_comp_words_by_ref -n := cur words cword || return
    # bash replaces what stands behind the last of these that part words.
    before=${cur%"${cur##*["${COMP_WORDBREAKS//[^:=]/}"]}"}
    [[ $COMP_WORDBREAKS == *[:=]* ]] || before=
    while IFS= read -r line; do
        case $line in
        $'\tfile')
            compopt -o filenames
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$cur")
            ;;
        $'\t@file')
            while IFS= read -r word; do COMPREPLY+=("@$word"); done < <(compgen -f -- "${cur#@}")
            ;;
        $'\tcommand '*)
            if ((${line##* } == cword)); then
                while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -c -- "$cur")
            else
                _command_offset "${line##* }"
            fi
            ;;
        *)
            word=${line%%$'\t'*}
            [[ $word != "$cur"* ]] || COMPREPLY+=("$(printf '%q' "${word#"$before"}")")
            [[ $word != *[:/@] ]] || compopt -o nospace
            ;;
        esac
    done < <(@LIBEXECDIR@/redlatch-complete "${words[@]:0:cword}" "$cur")
}

complete -F _redlatch redlatch
