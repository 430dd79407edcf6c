#!/bin/sh
# copying.sh DIR OTHER: a tree with everything in it survives `cp -a` and `tar`, onto the share and back.
# OTHER is DIR through another mount, which sees what the server has.  Tar's default format keeps whole seconds only.
set -e
dir=$1 other=$2

describe() (
    cd "$1"
    # Size and link count of a directory are the file system's own business.
    find . -printf '%P|%y|%m|%U|%G|%n|%s|%l|%T@\0' |
        awk -F'|' 'BEGIN { RS = ORS = "\0"; OFS = FS } $2 == "d" { $6 = $7 = 0 } { print }' | sort -z | tr '\0' '\n'
    find . -type f -print0 | sort -z | xargs -0 md5sum
)

tree=$(mktemp -d)/tree
mkdir -p "$tree/sub/deep" "$tree/closed"
(
    cd "$tree"
    echo one > sub/one
    ln sub/one sub/deep/same
    ln -s ../one sub/deep/up
    ln -s /nowhere dangling
    head -c 300000 /dev/urandom > sub/random
    printf x | dd of=holes bs=1 seek=4000000 conv=notrunc status=none
    truncate -s 5000000 holes
    mkfifo fifo
    touch 'with space' "$(printf 'new\nline')" "$(printf '\377\376')"
    chmod 4755 sub/one
    chown 1000:1001 sub/random
    chmod 0444 sub/random
    chmod 2770 sub/deep
    chmod 0500 closed
    touch -d '1999-12-31 23:59:59.5 UTC' sub/random sub/deep
)
work=$(dirname "$tree")
describe "$tree" > "$work/expected"

cp -a "$tree" "$dir/copied"
describe "$other/copied" > "$work/copied"
diff "$work/expected" "$work/copied"

mkdir "$dir/untarred"
tar -C "$tree" --format=posix -cf - . | tar -C "$dir/untarred" -xpf -
describe "$other/untarred" > "$work/untarred"
diff "$work/expected" "$work/untarred"

tar -C "$other/untarred" --format=posix -cf "$dir/all.tar" .
mkdir "$work/back"
tar -C "$work/back" -xpf "$dir/all.tar"
describe "$work/back" > "$work/came-back"
diff "$work/expected" "$work/came-back"

rm -rf "$dir/copied" "$dir/untarred" "$dir/all.tar"
[ -z "$(ls -A "$other")" ]
echo "copying: all good"
