#!/bin/sh
# git-clone.sh DIR OTHER: clone a repository onto the share and work there.
set -e
dir=$1 other=$2
HOME=$(mktemp -d)
export HOME GIT_CONFIG_NOSYSTEM=1
git config --global user.name tester
git config --global user.email tester@example.org
git config --global init.defaultBranch main
git config --global --add safe.directory '*'

git init -q "$HOME/origin"
cd "$HOME/origin"
for i in 1 2 3 4 5; do
    mkdir "d$i"
    for j in 1 2 3 4 5 6; do echo "$i $j" > "d$i/f$j"; done
    git add .
    git commit -qm "$i"
done

git clone -q "$HOME/origin" "$dir/clone"
cd "$dir/clone"
git fsck --strict
[ -z "$(git status --porcelain)" ]
echo more >> d1/f1
git commit -qam more
git checkout -qb side
git mv d2 moved
git commit -qm moved
git gc -q
git fsck --strict
[ "$(git -C "$other/clone" log --oneline | wc -l)" = 7 ]
[ "$(cat "$other/clone/moved/f3")" = "2 3" ]
echo "git-clone: all good"
