#!/bin/sh
# Make the completion of moao's command line in bash and zsh from what the program itself says.
#   scripts/make-completion.sh MOAO DIR
# MOAO: the program; DIR gets moao.bash and _moao: commands, options, parameter keys and their words; and the options of the
# commands on results (moao-plot...).
set -eu
[ $# -eq 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
moao=$1 dir=$2
mkdir -p "$dir"
commands=$("$moao" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p' | tr '\n' ' ')
keys=$("$moao" params --keys)
results=$(dirname "$0")/moao-results helps=$(mktemp -d)
trap 'rm -rf "$helps"' EXIT
"$results" --helps "$helps" || echo "make-completion.sh: so moao-plot and its sisters have no options there" >&2
drawn=$("$results" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\)  .*/moao-\1/p' | tr '\n' ' ') || drawn=
list() { echo "$keys" | sed -n "s/^$1 \([^ ]*\).*/\1/p" | tr '\n' ' '; }
# keys that are lists of sensors and profiles, or that one sensor alone may have, have no value of their own here
main=$(list main | sed 's/ngs_defaults //; s/lgs_defaults //; s/^\(.* \)sensors /\1/; s/atmosphere.profiles //')
sensor=$(list sensor)
for type in ngs lgs; do
    for k in $(list $type); do main="$main${type}_defaults.$k "; done
done
sections=$(echo "$keys" | sed 's/^main //; s/^[nl]gs .*/sensors/; s/^sensor .*/sensors/; s/^profile .*/profiles/; s/[. ].*//' | sort -u | tr '\n' ' ')

# case branches: the words of a key, whatever stands before it
words() {
    echo "$keys" | awk '$1 != "ngs" && $1 != "lgs" && NF > 2 { w = $3; for (i = 4; i <= NF; i++) w = w " " $i
        print "        " ($1 == "main" ? $2 : $2 "|*." $2) ") echo \"" w "\" ;;" }'
}
options() {
    for c in $commands; do
        echo "        $c) echo \"$("$moao" "$c" --help | sed -n 's/^  \(-[^ ]*\).*/\1/p' | sort -u | tr '\n' ' ')--help\" ;;"
    done
}
# those of a command on results; none where no Python has what it imports
result_options() {
    for c in $drawn; do
        echo "        $c) echo \"$(cat "$helps/$c" 2>/dev/null | sed -n 's/^  \(-.*\)/\1/p' | sed 's/   *.*//; s/,//g' |
            tr ' ' '\n' | grep '^-' | sort -u | tr '\n' ' ')\" ;;"
    done
}
common() {
    cat <<END
_moao_result_options() {
    case \$1 in
$(result_options)
    esac
}
_moao_options() {
    case \$1 in
$(options)
    esac
}
_moao_words() {
    case \$1 in
$(words)
    esac
}
# keys that may follow what is typed: of one sensor or profile behind its number or name, else all
_moao_keys() {
    local p k
    case \$1 in
        sensors\[*\].*|sensors.*.*) p=\${1%%.*}; [ "\$p" = sensors ] && p="sensors.\$(echo "\$1" | cut -d. -f2)"
            for k in $sensor; do echo "\$p.\$k"; done ;;
        atmosphere.profiles\[*\].*) p=\${1%%\]*}
            for k in $(list profile); do echo "\$p].\$k"; done ;;
        *) for k in $main; do echo "\$k"; done ;;
    esac
}
END
}

{
    echo "# completion of moao in bash; made by make-completion.sh"
    common
    cat <<END
_moao() {
    local cur=\${COMP_WORDS[COMP_CWORD]} command=\${COMP_WORDS[1]} key=""
    COMPREPLY=()
    if [ "\$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=(\$(compgen -W "$commands--help --version" -- "\$cur"))
        return
    fi
    if [ "\$cur" = "=" ]; then
        key=\${COMP_WORDS[COMP_CWORD-1]} cur=""
    elif [ "\${COMP_WORDS[COMP_CWORD-1]}" = "=" ]; then
        key=\${COMP_WORDS[COMP_CWORD-2]}
    fi
    if [ -n "\$key" ]; then
        COMPREPLY=(\$(compgen -W "\$(_moao_words "\$key")" -- "\$cur"))
        [ \${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=(\$(compgen -f -- "\$cur"))
    elif [[ \$cur == -* ]]; then
        COMPREPLY=(\$(compgen -W "\$(_moao_options "\$command")" -- "\$cur"))
    elif [ "\$command" = params ]; then
        COMPREPLY=(\$(compgen -W "$sections units" -- "\$cur"))
    else
        COMPREPLY=(\$(compgen -f -- "\$cur"))
        if [[ "\$command" != import* ]] && [[ \${COMP_WORDS[COMP_CWORD-1]} != -o ]]; then
            local keys=(\$(compgen -W "\$(_moao_keys "\$cur")" -- "\$cur"))
            COMPREPLY+=("\${keys[@]/%/=}")
        fi
        [[ \${#COMPREPLY[@]} -eq 1 && \${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    fi
    return 0
}
_moao_results() {
    local cur=\${COMP_WORDS[COMP_CWORD]}
    if [[ \$cur == -* ]]; then
        COMPREPLY=(\$(compgen -W "\$(_moao_result_options "\${COMP_WORDS[0]##*/}")" -- "\$cur"))
    else
        COMPREPLY=(\$(compgen -f -- "\$cur"))
    fi
}
complete -o filenames -F _moao moao
complete -o filenames -F _moao_results $drawn
END
} >"$dir/moao.bash"

{
    echo "#compdef moao $drawn"
    echo "# completion of moao in zsh; made by make-completion.sh"
    common
    cat <<END
_moao() {
    local key command=\${words[2]}
    if (( CURRENT == 2 )); then
        compadd -- $commands--help --version
    elif [[ \$PREFIX == -* ]]; then
        compadd -- \$(_moao_options "\$command")
    elif [[ \$PREFIX == *=* ]]; then
        key=\${PREFIX%%=*}
        compset -P '*='
        compadd -- \$(_moao_words "\$key") || _files
    elif [[ \$command == params ]]; then
        compadd -- $sections units
    else
        if [[ \$command != import* && \${words[CURRENT-1]} != -o ]]; then
            compadd -S = -- \$(_moao_keys "\$PREFIX")
        fi
        _files
    fi
}
if [[ \${service:-moao} == moao ]]; then
    _moao "\$@"
elif [[ \$PREFIX == -* ]]; then
    compadd -- \$(_moao_result_options "\$service")
else
    _files
fi
END
} >"$dir/_moao"
