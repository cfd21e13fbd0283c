#!/bin/busybox sh
# The first process of the machine that `cargo xtask cgroups` starts: makes a tree of control groups as systemd would for a
# service with `Delegate=yes`, runs the tests in it, says how that went, and switches the machine off.

if [ "$1" != again ]; then
    # SPEs change their root, which nobody can from the first one.
    /bin/busybox mkdir /new
    /bin/busybox mount -t tmpfs -o mode=755 tmpfs /new
    # Copied one by one and removed at once: each lies in memory.
    for folder in /etc /lib /lib64 /tests; do
        /bin/busybox cp -a "$folder" /new/ && /bin/busybox rm -r "$folder"
    done
    /bin/busybox cp -a /bin /init /new/
    exec /bin/busybox switch_root /new /init again
fi

/bin/busybox --install -s /bin
export PATH=/bin:/tests TMPDIR=/tmp HOME=/tmp
mkdir -p /proc /sys /dev /tmp
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ifconfig lo up
groups=/sys/fs/cgroup
echo "+memory +pids" > $groups/cgroup.subtree_control
mkdir $groups/tests
echo "+memory +pids" > $groups/tests/cgroup.subtree_control
echo "kernel $(uname -r), $(cat $groups/cgroup.controllers)"

failed=""
run() {
    name="$1"
    shift
    echo "=== $name"
    "$@" || failed="$failed, $name"
}

# A group of this name with these controllers; what follows them runs in it.
inside() {
    mkdir -p "$groups/$1"
    sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$groups/$1" $2
}

# What `sector doctor` says in a group, which must have these words.
doctor() {
    said="$(inside "$1" "sector doctor /tmp" | grep -A 1 "function memory")"
    echo "$1: $said"
    case "$said" in *"$2"*) ;; *) return 1 ;; esac
}

export SECTOR_TEST_CGROUP=$groups/tests
export SECTOR_ESCAPE_TESTS_SPE=/tests/sector-spe SECTOR_ESCAPE_TESTS_ATTACKS=/tests
# The commands of the tests that run all others again are not here.
run "groups" spe cgroup_limits --nocapture --test-threads 1
run "attacks" escape --nocapture --test-threads 1 --skip all_of_this_holds --skip what_is_left_holds

unset SECTOR_TEST_CGROUP
run "doctor alone in a group" doctor alone "a control group bounds each SPE"
run "doctor in the group of all" doctor "" "has other processes in it"
mkdir $groups/shared
sleep 1000 &
echo $! > $groups/shared/cgroup.procs
run "doctor beside another process" doctor shared "has other processes in it"
mkdir $groups/counted
echo +pids > $groups/counted/cgroup.subtree_control
run "doctor where memory is not counted" doctor counted/bare "does not have the controllers"

[ -z "$failed" ] && echo "cgroups: all passed" || echo "cgroups: failed: ${failed#, }"
poweroff -f
