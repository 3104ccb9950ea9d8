/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/transport/ranks.h"

#include "runtime/transport/tcp/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const ranks_kind_names[] = {
#define X(name, text) [RANKS_##name] = text,
#include "tests/transport/ranks.def"
#undef X
};

enum { SPIN_NS = 20 * 1000, PORT_TEXT_MAX = 8 };

static const char job_key[] = "a key of tests of transports";

typedef struct seat {
    const ranks_options *options;
    ranks_body body;
    void *user;
    int fd, result;
    const char *port;
    uint32_t rank;
    pthread_t thread;
} seat;

/* Below the range from which the kernel takes the ports of outgoing connections (32768 and up), so
 * that no other test gets it by chance before the listener is up. */
uint16_t ranks_free_port(void) {
    enum { FIRST = 20000, LIMIT = 32000 };
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int tries = 0; tries < 1000; tries++) {
        uint16_t number;
        if (getentropy(&number, sizeof number)) abort();
        number = (uint16_t)(FIRST + number % (LIMIT - FIRST));
        address.sin_port = htons(number);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0) abort();
        int status = bind(fd, (struct sockaddr *)&address, sizeof address);
        close(fd);
        if (!status) return number;
    }
    abort();
}

static tsr_result open_end(tsr_ctx *ctx, const seat *s, tsr_transport **out_transport) {
    const ranks_options *o = s->options;
    const tsr_shared_join_options shared = {.size_bytes = sizeof shared,
                                            .fd = s->fd,
                                            .rank = s->rank,
                                            .deadline_ns = o->deadline_ns,
                                            .spin_ns = SPIN_NS,
                                            .is_private = o->kind == RANKS_PRIVATE};
    const tsr_tcp_options tcp = {.size_bytes = sizeof tcp,
                                 .rank = s->rank,
                                 .rank_count = o->count,
                                 .address = "localhost",
                                 .port = s->port,
                                 .key = job_key,
                                 .key_bytes = sizeof job_key,
                                 .join_ns = UINT64_C(60) * 1000000000u,
                                 .deadline_ns = o->deadline_ns,
                                 .secondary_deadline_ns = o->deadline_ns};
    if (o->kind == RANKS_LOOPBACK) return tsr_loopback_open(ctx, out_transport);
    if (o->kind == RANKS_TCP) return tsr_tcp_join(ctx, &tcp, out_transport);
    return tsr_shared_join(ctx, &shared, out_transport);
}

static int run_rank(seat *s) {
    tsr_ctx ctx = {0};
    tsr_transport *t = NULL;
    tsr_result result = open_end(&ctx, s, &t);
    if (result.code) {
        fprintf(stderr, "rank %u: %s\n", s->rank, ctx.error.text);
        return 1;
    }
    int failed = s->body(&ctx, t, s->user);
    tsr_transport_close(t);
    return failed;
}

static void *thread_main(void *user) {
    seat *s = user;
    s->result = run_rank(s);
    return NULL;
}

static int run_threads(seat *seats, uint32_t count) {
    int failed = 0;
    for (uint32_t r = 0; r < count; r++)
        if (pthread_create(&seats[r].thread, NULL, thread_main, &seats[r])) abort();
    for (uint32_t r = 0; r < count; r++) {
        pthread_join(seats[r].thread, NULL);
        failed += seats[r].result != 0;
    }
    return failed;
}

static int run_processes(seat *seats, uint32_t count) {
    pid_t pids[TSR_TRANSPORT_RANKS_MAX];
    int failed = 0;
    fflush(NULL);
    for (uint32_t r = 0; r < count; r++) {
        pids[r] = fork();
        if (pids[r] < 0) abort();
        if (pids[r] == 0) {
            int code = run_rank(&seats[r]);
            fflush(NULL);
            _exit(code);
        }
    }
    for (uint32_t r = 0; r < count; r++) {
        int status = 0;
        if (waitpid(pids[r], &status, 0) != pids[r]) abort();
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    return failed;
}

int ranks_run(const ranks_options *options, ranks_body body, void *user) {
    tsr_ctx ctx = {0};
    int fd = -1;
    char port[PORT_TEXT_MAX] = "";
    if (options->kind == RANKS_TCP) {
        snprintf(port, sizeof port, "%u", (unsigned)ranks_free_port());
    } else if (options->kind != RANKS_LOOPBACK) {
        tsr_shared_options shared = {.size_bytes = sizeof shared,
                                     .rank_count = options->count,
                                     .heap_bytes = options->heap_bytes};
        if (tsr_shared_create(&ctx, &shared, &fd).code) {
            fprintf(stderr, "%s\n", ctx.error.text);
            return (int)options->count;
        }
    }
    seat *seats = calloc(options->count, sizeof *seats);
    if (!seats) abort();
    for (uint32_t r = 0; r < options->count; r++)
        seats[r] = (seat){
            .options = options, .body = body, .user = user, .fd = fd, .port = port, .rank = r};
    bool threads = options->kind == RANKS_THREADS || options->kind == RANKS_LOOPBACK;
    int failed = (threads ? run_threads : run_processes)(seats, options->count);
    free(seats);
    if (fd >= 0) close(fd);
    return failed;
}

static bool has_heap(const tsr_transport *t) { return strcmp(t->kind->name, "shared memory") == 0; }

void *ranks_memory(tsr_transport *t, size_t size_bytes, bool in_heap) {
    size_t have;
    if (!in_heap || !has_heap(t)) return malloc(size_bytes ? size_bytes : 1);
    void *heap = tsr_shared_get_heap(t, &have);
    if (size_bytes > have) abort();
    return heap;
}

void ranks_memory_free(tsr_transport *t, void *memory) {
    size_t have;
    if (!has_heap(t) || memory != tsr_shared_get_heap(t, &have)) free(memory);
}
