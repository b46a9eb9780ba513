# SPDX-License-Identifier: MIT
# redlatch.bash - completion of redlatch(1) for bash; what may stand where is redlatch-complete's to know.

_redlatch()
{
    local cur words cword line word before quote= begun
    local -a given
    _get_comp_words_by_ref -n := cur words cword || return
    # Words as the command will have them, as far as that takes no evaluation: what is quoted stays what it is.
    given=("${words[@]:0:cword}" "$cur")
    given=("${given[@]//[\\\'\"]/}")
    given=("${given[@]//$'\n'/ }")
    begun=${given[cword]}
    # bash replaces what stands behind the last of these that part words, outside quotes.
    [[ $cur == [\'\"]* ]] && quote=${cur:0:1}
    before=${begun%"${begun##*["${COMP_WORDBREAKS//[^:=]/}"]}"}
    [[ $COMP_WORDBREAKS == *[:=]* && -z $quote ]] || before=
    while IFS= read -r line; do
        case $line in
        $'\tfile' | $'\tdir')
            compopt -o filenames
            [[ $line == *dir ]] && word=-d || word=-f
            while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen $word -- "$begun")
            ;;
        $'\t@file')
            compopt -o nospace
            while IFS= read -r word; do COMPREPLY+=("@$word"); done < <(compgen -f -- "${begun#@}")
            ;;
        $'\tcommand '*)
            if ((${line##* } == cword)); then
                while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -c -- "$begun")
            else
                _command_offset "${line##* }"
            fi
            ;;
        *)
            word=${line%%$'\t'*}
            [[ $word == "$begun"* ]] || continue
            [[ $word != *[:/@] ]] || compopt -o nospace
            word=${word#"$before"}
            [[ $quote ]] || printf -v word %q "$word"
            COMPREPLY+=("$word")
            ;;
        esac
    done < <(printf '%s\n' "${given[@]}" | @LIBEXECDIR@/redlatch-complete)
}

complete -F _redlatch redlatch
