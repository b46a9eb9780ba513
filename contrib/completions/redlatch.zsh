#compdef redlatch
# SPDX-License-Identifier: MIT
# redlatch.zsh - completion of redlatch(1) for zsh; what may stand where is redlatch-complete's to know.

local line word
local -a given found bare

given=("${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}")
for line in "${(@f)$(print -rl -- "${(@)given//$'\n'/ }" | @LIBEXECDIR@/redlatch-complete)}"; do
    case $line in
    ($'\tfile '*) compset -P "${(b)line#* }"; _files ;;
    ($'\tdir '*) compset -P "${(b)line#* }"; _files -/ ;;
    ($'\t@file '*) compset -P "${(b)line#* }@"; _files ;;
    ($'\tcommand '*)
        shift ${line##* } words
        (( CURRENT -= ${line##* } ))
        _normal
        ;;
    (*[:/@]$'\t'* | *[:/@]) bare+=("${line%%$'\t'*}") ;;
    (?*)
        word=${line%%$'\t'*}
        found+=("${word//:/\\:}:${${line#$word}#$'\t'}")
        ;;
    esac
done
(( $#bare )) && compadd -S '' -a bare
(( $#found )) && _describe -V redlatch found
