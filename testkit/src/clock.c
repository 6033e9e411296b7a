/* A clock for tests: loaded into a server with LD_PRELOAD, it moves the time that the server reads.
 *
 * The file named by ZEITSET_CLOCK holds the offsets of the wall clock and of the monotonic clock. A test changes the file while
 * servers run (testkit/src/clock.rs). Processes that a server forks use the same file. Clocks of CPU time and the length of
 * sleeps do not change: a sleeping server notices a step when it wakes up.
 *
 * The file consists of:
 * - one byte that selects the valid entry, padded to 8 bytes;
 * - the number of event loop iterations (64 bits), which this library counts;
 * - two entries. An entry has two signed 64-bit offsets in nanoseconds: of the wall clock and of the monotonic clock.
 *
 * A change writes the entry that is not selected and then selects it, so a reader never sees half of a change.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct offsets {
    volatile int64_t wall;
    volatile int64_t monotonic;
};

struct shared {
    volatile unsigned char current;
    char padding[7];
    uint64_t waits;
    struct offsets entries[2];
};

static const int64_t SECOND = 1000000000;
static struct shared *shared;

__attribute__((constructor)) static void map_file(void) {
    const char *path = getenv("ZEITSET_CLOCK");
    if (path == NULL) {
        return;
    }
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        perror(path);
        _exit(1);
    }
    close(file);
    shared = mapped;
}

/* Returns the offset of a clock in nanoseconds. */
static int64_t ahead(clockid_t clock) {
    if (shared == NULL) {
        return 0;
    }
    const struct offsets *offsets = &shared->entries[shared->current & 1];
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
        return offsets->wall;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_BOOTTIME:
        return offsets->monotonic;
    default:
        return 0;
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (syscall(SYS_clock_gettime, clock, time) != 0) {
        return -1;
    }
    int64_t moment = time->tv_sec * SECOND + time->tv_nsec + ahead(clock);
    time->tv_sec = moment / SECOND;
    time->tv_nsec = moment % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    if (zone != NULL) {
        memset(zone, 0, sizeof(struct timezone));
    }
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return -1;
    }
    if (seconds != NULL) {
        *seconds = now.tv_sec;
    }
    return now.tv_sec;
}

/* Hides /proc/cpuinfo. If this file says that the processor's counter is constant, some servers use the counter as their
 * clock. Without the file, they use the monotonic clock. */
static FILE *open_stream(const char *name, const char *path, const char *mode) {
    FILE *(*next)(const char *, const char *);
    if (shared != NULL && strcmp(path, "/proc/cpuinfo") == 0) {
        errno = ENOENT;
        return NULL;
    }
    *(void **)&next = dlsym(RTLD_NEXT, name);
    return next(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    return open_stream("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return open_stream("fopen64", path, mode);
}

/* Called once per iteration of a server's event loop. */
int epoll_wait(int queue, struct epoll_event *events, int most, int timeout) {
    static int (*next)(int, struct epoll_event *, int, int);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "epoll_wait");
    }
    if (shared != NULL) {
        __atomic_fetch_add(&shared->waits, 1, __ATOMIC_RELAXED);
    }
    return next(queue, events, most, timeout);
}
