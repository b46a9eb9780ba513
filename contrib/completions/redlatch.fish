# SPDX-License-Identifier: MIT
# redlatch.fish - completion of redlatch(1) for fish; what may stand where is redlatch-complete's to know.

function __redlatch_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string unescape)
    for line in (string replace -a \n ' ' -- $words "$current" | @LIBEXECDIR@/redlatch-complete)
        switch $line
            case \t'file *' \t'dir *' \t'@file *'
                set -l what __fish_complete_path
                set -l before (string split -m 1 ' ' -- $line)[2]
                string match -q \t'd*' -- $line; and set what __fish_complete_directories
                string match -q \t'@*' -- $line; and set before $before@
                for path in ($what (string sub -s (math (string length -- "$before") + 1) -- "$current"))
                    echo "$before$path"
                end
            case \t'command *'
                set -l first (math (string split -r -m 1 ' ' -- $line)[2] + 1)
                complete -C (string join -- ' ' (string escape -- $words[$first..-1]) "$current")
            case '*'
                echo $line
        end
    end
end

complete -c redlatch -f -a '(__redlatch_complete)'
