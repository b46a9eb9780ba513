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
    before=${cur%%[\'\"]*} before=${before//\\/}
    before=${before%"${before##*["${COMP_WORDBREAKS//[^:=]/}"]}"}
    [[ $COMP_WORDBREAKS == *[:=]* ]] || before=
    while IFS= read -r line; do
        case $line in
        $'\tfile '* | $'\tdir '* | $'\t@file '*)
            [[ $line == $'\t@'* ]] && compopt -o nospace || compopt -o filenames
            [[ $line == $'\td'* ]] && word=-d || word=-f
            [[ $line == $'\t@'* ]] && line+=@
            line=${line#* }
            while IFS= read -r word; do
                word=$line$word
                COMPREPLY+=("${word#"$before"}")
            done < <(compgen $word -- "${begun#"$line"}")
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
