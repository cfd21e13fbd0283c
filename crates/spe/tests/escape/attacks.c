/* Attacks of a hostile user function on the machine it runs on, for the tests beside this file. Each says in one line
 * what it got: `ok` and what, or the name of the error. The same file makes a library (a user function that does the
 * attack its parameters name) and, with CONTROL, a program that does it outside of any sandbox.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[4096];

static const char *say(const char *format, long number) {
    snprintf(said, sizeof said, format, number);
    return said;
}

static const char *failed(void) {
    snprintf(said, sizeof said, "%s", strerrorname_np(errno));
    return said;
}

static const char *outcome(long result) { return result < 0 ? failed() : "ok"; }

static const char *read_file(const char *path) {
    char bytes[256] = {0};
    int file = open(path, O_RDONLY);
    if (file < 0 || read(file, bytes, sizeof bytes - 1) < 0) return failed();
    snprintf(said, sizeof said, "ok %s", bytes);
    return said;
}

static const char *write_file(const char *path) {
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    return outcome(file < 0 ? -1 : write(file, "pwned", 5));
}

/* Another user's slice through descriptors: opens each anew for writing, or changes its mode through it. */
static const char *reopen(const char *unused) {
    long got = 0;
    (void)unused;
    /* Downwards: what is opened here comes above. */
    for (int number = 63; number >= 3; number--) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        got += open(path, O_RDWR) >= 0;
    }
    return say("ok %ld", got);
}

static const char *change_modes(const char *unused) {
    long got = 0;
    struct timespec times[2] = {{0, 0}, {0, 0}};
    (void)unused;
    for (int number = 3; number < 64; number++) {
        got += fchmod(number, 0777) == 0;
        got += futimens(number, times) == 0;
        got += fcntl(number, F_SETLEASE, F_RDLCK) == 0;
    }
    return say("ok %ld", got);
}

static const char *connect_to(int family, const void *address, socklen_t bytes) {
    int sender = socket(family, SOCK_STREAM, 0);
    return outcome(sender < 0 ? -1 : connect(sender, address, bytes));
}

static const char *tcp(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    return connect_to(AF_INET, &address, sizeof address);
}

static const char *udp(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    int sender = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    return outcome(sender < 0 ? -1 : sendto(sender, "x", 1, 0, (void *)&address, sizeof address));
}

static const char *unix_path(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    return connect_to(AF_UNIX, &address, sizeof address);
}

static const char *unix_abstract(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
    return connect_to(AF_UNIX, &address, (socklen_t)(sizeof(sa_family_t) + 1 + strlen(name)));
}

/* A datagram needs no connection: out through one end of a pair. */
static const char *pair_to_abstract(const char *name) {
    int ends[2];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path + 1, name, sizeof address.sun_path - 2);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) < 0) return failed();
    return outcome(sendto(ends[0], "x", 1, 0, (void *)&address, (socklen_t)(sizeof(sa_family_t) + 1 + strlen(name))));
}

/* Children that stay: as many as it gets, up to the number given. */
static const char *forks(const char *number) {
    long got = 0, most = atol(number);
    pid_t *children = calloc((size_t)most, sizeof *children);
    while (got < most && (children[got] = fork()) >= 0) {
        if (children[got] == 0) for (;;) pause();
        got++;
    }
    for (long at = 0; at < got; at++) {
        kill(children[at], SIGKILL);
        waitpid(children[at], NULL, 0);
    }
    return say("ok %ld", got);
}

static void *wait_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}

static const char *threads(const char *number) {
    long got = 0, most = atol(number);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (pthread_t thread; got < most && pthread_create(&thread, &attributes, wait_for_ever, NULL) == 0;) got++;
    return say("ok %ld", got);
}

/* Goes to the background, as daemons do, and stays. */
static const char *stay(const char *unused) {
    (void)unused;
    pid_t child = fork();
    if (child < 0) return failed();
    if (child == 0) {
        setsid();
        if (fork() != 0) _exit(0);
        for (;;) pause();
    }
    waitpid(child, NULL, 0);
    return "ok";
}

/* Takes memory a MiB at a time and touches it; says how many it got, up to the number given. */
static const char *take_at(const char *number, int flags, int file, off_t step) {
    long got = 0, most = atol(number);
    char *taken[1024];
    while (got < most) {
        char *bytes = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, flags, file, got * step);
        if (bytes == MAP_FAILED) break;
        for (long at = 0; at < 1 << 20; at += 4096) bytes[at] = 1;
        taken[got++] = bytes;
    }
    /* Who holds it all cannot even say so. */
    for (long at = 0; at < got; at++) munmap(taken[at], 1 << 20);
    return say("ok %ld", got);
}

static const char *take(const char *number, int flags, int file) { return take_at(number, flags, file, 1 << 20); }

static const char *memory(const char *number) { return take(number, MAP_PRIVATE | MAP_ANONYMOUS, -1); }
static const char *shared_memory(const char *number) { return take(number, MAP_SHARED | MAP_ANONYMOUS, -1); }
static const char *stack_memory(const char *number) {
    return take(number, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1);
}
static const char *file_memory(const char *number) {
    int file = memfd_create("x", 0);
    if (file < 0) return failed();
    if (ftruncate(file, atol(number) << 20) < 0) return failed();
    return take(number, MAP_SHARED, file);
}

/* Shared anonymous memory by another name, which counts as nobody's. */
static const char *zero_memory(const char *number) {
    int file = open("/dev/zero", O_RDWR);
    return file < 0 ? failed() : take_at(number, MAP_SHARED, file, 0);
}

/* The same as far as a descriptor for reading gets: what is only read must not become memory either. Keeps it. */
static const char *zero_pages(const char *number) {
    long got = 0, most = atol(number), seen = 0;
    int file = open("/dev/zero", O_RDONLY);
    if (file < 0) return failed();
    while (got < most) {
        volatile char *bytes = mmap(NULL, 1 << 20, PROT_READ, MAP_SHARED, file, 0);
        if (bytes == MAP_FAILED) break;
        for (long at = 0; at < 1 << 20; at += 4096) seen += bytes[at];
        got++;
    }
    return say("ok %ld", got + seen);
}

/* Addresses without memory of their own, a GiB at a time, read here and there: each read makes a page of the kernel's
 * tables. Keeps them; says how many GiB it got, up to the number given. */
static const char *page_tables(const char *number) {
    long got = 0, most = atol(number), seen = 0;
    while (got < most) {
        volatile char *bytes = mmap(NULL, 1 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (bytes == MAP_FAILED) break;
        for (long at = 0; at < 1 << 30; at += 2 << 20) seen += bytes[at];
        got++;
    }
    return say("ok %ld", got + seen);
}

/* Children that each take so many MiB and keep it, as many as it gets up to eight; says how many had all of it. */
static const char *many_memories(const char *number) {
    int ends[2], full = 0, started = 0;
    pid_t children[8];
    char one;
    if (pipe(ends) < 0) return failed();
    for (int at = 0; at < 8; at++) {
        pid_t child = fork();
        if (child < 0) break;
        if (child > 0) {
            children[started++] = child;
            continue;
        }
        long most = atol(number);
        for (long mib = 0; mib < most; mib++) {
            char *bytes = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (bytes == MAP_FAILED) _exit(1);
            memset(bytes, 1, 1 << 20);
        }
        if (write(ends[1], "x", 1) == 1) for (;;) pause();
        _exit(1);
    }
    close(ends[1]);
    while (full < 8 && read(ends[0], &one, 1) == 1) full++;
    while (started-- > 0) {
        kill(children[started], SIGKILL);
        waitpid(children[started], NULL, 0);
    }
    return say("ok %ld", full);
}

/* Fills the working folder; says how many MiB it got, up to the number given. */
static const char *fill(const char *number) {
    long got = 0, most = atol(number);
    static char bytes[1 << 20];
    int file = open("fill", O_CREAT | O_WRONLY, 0600);
    if (file < 0) return failed();
    while (got < most && write(file, bytes, sizeof bytes) == sizeof bytes) got++;
    unlink("fill");
    close(file);
    return say("ok %ld", got);
}

static const char *many_files(const char *number) {
    long got = 0, most = atol(number);
    while (got < most && dup(0) >= 0) got++;
    return say("ok %ld", got);
}

static const char *trace(const char *pid) { return outcome(ptrace(PTRACE_SEIZE, atoi(pid), NULL, NULL)); }

static const char *peek(const char *pid) {
    char path[64], byte;
    struct iovec here = {&byte, 1}, there = {NULL, 1};
    snprintf(path, sizeof path, "/proc/%s/mem", pid);
    if (open(path, O_RDONLY) >= 0) return "ok";
    process_vm_readv(atoi(pid), &here, 1, &there, 1, 0);
    /* An address that is not there is found out only by who may look. */
    return errno == EFAULT ? "ok" : failed();
}

static const char *end_process(const char *pid) { return outcome(kill(atoi(pid), SIGKILL)); }
static const char *limit_process(const char *pid) {
    struct rlimit limit;
    return outcome(prlimit(atoi(pid), RLIMIT_NOFILE, NULL, &limit));
}
static const char *become_root(const char *unused) { (void)unused; return outcome(syscall(SYS_setresuid, 0, 0, 0)); }
static const char *who(const char *unused) { (void)unused; return say("ok %ld", (long)geteuid()); }
static const char *mounts(const char *unused) { (void)unused; return outcome(mount("none", ".", "tmpfs", 0, NULL)); }

/* Runs a program and gives what it says. */
static const char *run(const char *path) {
    int ends[2], status;
    char bytes[256] = {0};
    if (pipe(ends) < 0) return failed();
    pid_t child = fork();
    if (child < 0) return failed();
    if (child == 0) {
        dup2(ends[1], 1);
        execl(path, path, "who", "", (char *)NULL);
        dprintf(1, "%s", strerrorname_np(errno));
        _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], bytes, sizeof bytes - 1) < 0) return failed();
    waitpid(child, &status, 0);
    snprintf(said, sizeof said, "%s", bytes);
    return said;
}

/* Calls that attack the kernel itself, with arguments it would look at only if it let the caller in. */
static const char *kernel(const char *unused) {
    static const struct { const char *name; long number; } calls[] = {
        {"unshare", SYS_unshare}, {"bpf", SYS_bpf}, {"keyctl", SYS_keyctl}, {"add_key", SYS_add_key},
        {"perf_event_open", SYS_perf_event_open}, {"io_uring_setup", SYS_io_uring_setup},
        {"userfaultfd", SYS_userfaultfd}, {"kexec_load", SYS_kexec_load}, {"init_module", SYS_init_module},
        {"setns", SYS_setns}, {"pivot_root", SYS_pivot_root}, {"umount2", SYS_umount2}, {"fsopen", SYS_fsopen},
        {"open_by_handle_at", SYS_open_by_handle_at}, {"pidfd_open", SYS_pidfd_open}, {"setsid", SYS_setsid},
    };
    (void)unused;
    said[0] = 0;
    for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
        errno = 0;
        syscall(calls[at].number, 0x10000000L, -1L, -1L, -1L, -1L);
        if (errno != EPERM) {
            strcat(said, calls[at].name);
            strcat(said, " ");
        }
    }
    return said;
}

/* What a confined process can do all the same. */
static const char *ordinary(const char *unused) {
    char bytes[8] = {0};
    pthread_t thread;
    int ends[2];
    (void)unused;
    if (write_file("note")[0] != 'o' || read_file("note")[0] != 'o') return "no scratch";
    if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0) return "no thread";
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 || write(ends[0], "x", 1) != 1) return "no pair";
    if (read_file("/dev/urandom")[0] != 'o' || getentropy(bytes, sizeof bytes) < 0) return "no chance";
    if (kill(getpid(), 0) < 0) return "no signal to itself";
    if (getrlimit(RLIMIT_CORE, &(struct rlimit){0}) < 0) return "no look at limits";
    return "ok";
}

static const struct { const char *name; const char *(*attack)(const char *); } attacks[] = {
    {"read", read_file}, {"write", write_file}, {"reopen", reopen}, {"change_modes", change_modes}, {"tcp", tcp},
    {"udp", udp}, {"unix_path", unix_path}, {"unix_abstract", unix_abstract}, {"pair_to_abstract", pair_to_abstract},
    {"forks", forks}, {"threads", threads}, {"stay", stay}, {"memory", memory}, {"shared_memory", shared_memory},
    {"stack_memory", stack_memory}, {"file_memory", file_memory}, {"zero_memory", zero_memory}, {"zero_pages", zero_pages},
    {"page_tables", page_tables}, {"many_memories", many_memories}, {"fill", fill}, {"many_files", many_files},
    {"trace", trace}, {"peek", peek}, {"end", end_process}, {"limit", limit_process}, {"become_root", become_root},
    {"who", who}, {"mount", mounts}, {"run", run}, {"kernel", kernel}, {"ordinary", ordinary},
};

static const char *attack(const char *name, const char *argument) {
    for (size_t at = 0; at < sizeof attacks / sizeof *attacks; at++) {
        if (strcmp(attacks[at].name, name) == 0) return attacks[at].attack(argument);
    }
    return "no such attack";
}

#ifdef CONTROL
int main(int count, char **words) {
    puts(attack(words[1], count > 2 ? words[2] : ""));
    return 0;
}
#else
#include "sector_udf.h"
SECTOR_UDF_LIBRARY
int32_t attacker(const sector_input *input, sector_output *output);
int32_t attacker(const sector_input *input, sector_output *output) {
    const char *got = attack(input->parameter(input, "attack"), input->parameter(input, "argument"));
    return output->emit(output, 0, (const uint8_t *)got, strlen(got));
}
/* Emits its text so many times, and writes over the results of all tasks before through copies of their descriptors. */
int32_t rewrites(const sector_input *input, sector_output *output);
int32_t rewrites(const sector_input *input, sector_output *output) {
    static int kept[64], count;
    const char *text = input->parameter(input, "text");
    for (int at = 0; at < count; at++) {
        long bytes = lseek(kept[at], 0, SEEK_END);
        for (long place = 0; place < bytes; place++) if (pwrite(kept[at], "!", 1, place) != 1) break;
    }
    for (int number = 3; number < 64; number++) {
        struct stat found;
        /* What it may write to and is a file: the results. */
        if (fstat(number, &found) < 0 || !S_ISREG(found.st_mode) || (fcntl(number, F_GETFL) & O_ACCMODE) != O_RDWR) continue;
        if (count < 64) kept[count++] = dup(number);
    }
    for (long left = atol(input->parameter(input, "times")); left > 0; left--) {
        int32_t closed = output->emit(output, 0, (const uint8_t *)text, strlen(text));
        if (closed != 0) return closed;
    }
    return 0;
}
int32_t spins(const sector_input *input, sector_output *output);
int32_t spins(const sector_input *input, sector_output *output) {
    (void)input;
    output->emit(output, 0, (const uint8_t *)"", 0);
    for (;;) { }
}
int32_t tells(const sector_input *input, sector_output *output);
int32_t tells(const sector_input *input, sector_output *output) {
    (void)input;
    for (;;) output->progress(output, 0);
}
int32_t emits(const sector_input *input, sector_output *output);
int32_t emits(const sector_input *input, sector_output *output) {
    static uint8_t bytes[1 << 20];
    (void)input;
    for (;;) {
        int32_t closed = output->emit(output, 0, bytes, sizeof bytes);
        if (closed != 0) return closed;
    }
}
#endif
