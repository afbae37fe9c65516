#!/bin/sh
# Make the manual pages of moao from what the program itself says.
#   scripts/make-man.sh MOAO DIR
# MOAO: the program; DIR gets moao.1, moao-COMMAND.1 for each command of `moao --help` and of moao-results, moao-parameters.5.
set -eu
[ $# -eq 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
moao=$1 dir=$2
mkdir -p "$dir"

# A usage text as a page: the usage as synopsis, paragraphs, and one item for each line "  NAME  text".
page='
function plain(s) {
    gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); gsub(/`/, "", s)
    return s ~ /^[.\047]/ ? "\\&" s : s
}
BEGIN {
    printf ".TH %s 1 \"\" \"moao\"\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.nf\n", toupper(plain(name)), plain(name), plain(what)
}
synopsis != 1 && (/^usage: / || (NR > 1 && /^ /)) { sub(/^usage: /, ""); sub(/^ +/, "    "); print plain($0); next }
synopsis != 1 { synopsis = 1; print ".fi\n.SH DESCRIPTION" }
/^ *$/ { if (begun) print ".PP"; begun = 0; item = 0; next }
/^  [^ ]/ {
    text = substr($0, 3); n = match(text, /   */)
    if (n == 0) { print ".TP\n.B " plain(text) }
    else { print ".TP\n.B " plain(substr(text, 1, n - 1)); sub(/^.*/, substr(text, n + RLENGTH), text); print plain(text) }
    begun = 1; item = 1; next
}
/^   / { sub(/^ +/, ""); print plain($0); begun = 1; next }
{ if (item) print ".PP"; item = 0; print plain($0); begun = 1 }
END { print ".SH SEE ALSO" ; print see }
'
see='.BR moao (1),
.BR moao\-parameters (5)'

commands=$("$moao" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
for c in $commands; do
    what=$("$moao" --help | sed -n "s/^  $c  *//p")
    "$moao" "$c" --help | awk -v name="moao-$c" -v what="$what" -v see="$see" "$page" >"$dir/moao-$c.1"
done

# the commands on results, where there is a Python that has what they import
results=$(dirname "$0")/moao-results helps=$(mktemp -d)
trap 'rm -rf "$helps"' EXIT
drawn=
if "$results" --helps "$helps"; then
    drawn=$("$results" --help | sed -n 's/^  \([a-z][a-z-]*\)  .*/\1/p')
else
    echo "make-man.sh: so there are no manual pages of moao-plot and its sisters" >&2
fi
for c in $drawn; do
    echo "$commands" | grep -qx "$c" && continue # moao-import is moao import
    what=$("$results" --help | sed -n "s/^  $c  *//p")
    awk -v name="moao-$c" -v what="$what" -v see="$see" "$page" <"$helps/moao-$c" >"$dir/moao-$c.1"
done

see='.BR moao\-parameters (5)'
for c in $(printf '%s\n' $commands $drawn | awk '!seen[$0]++'); do
    see="$see,
.BR moao\\-$(echo "$c" | sed 's/-/\\-/g') (1)"
done
"$moao" --help | awk -v name=moao -v what="multi-object adaptive optics for extremely large telescopes" \
    -v see="$(echo "$see" | sed 's/\\/\\\\/g')" "$page" >"$dir/moao.1"
"$moao" params --man >"$dir/moao-parameters.5"
