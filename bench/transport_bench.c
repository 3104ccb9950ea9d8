/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: transport_bench shared|private RANKS | mpirun -n RANKS transport_bench mpi
 *
 * Measures collectives of RANKS processes on this host: Tessera's over shared memory, with data
 * that others can read in place or data in a rank's own memory, or those of the MPI library itself,
 * as a reference. Each figure is the median of rounds; a round is as long as its slowest rank. As
 * another reference, every rank copies the same bytes by memcpy between rounds. A further one is
 * the time in which two processors hand over one cache line in one direction: no barrier can be
 * faster. Prints a JSON object.
 */
#include "runtime/base/array.h"
#include "runtime/base/clock.h"
#include "runtime/transport/collective.h"
#include "runtime/transport/shared.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TSR_BENCH_MPI
#include <mpi.h>
#endif

enum { ROUNDS = 21, ROUNDS_LARGE = 7, HANDOVERS = 2000 };
static const size_t sizes[] = {8,         64,      512,     4 << 10,  16 << 10, 64 << 10,
                               256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
enum { SIZE_COUNT = TSR_COUNT(sizes) };
#define LARGEST (sizes[SIZE_COUNT - 1])

/* SEND_RECEIVE: half the bytes to a rank and back. */
typedef enum what {
    BARRIER,
    BROADCAST,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_REDUCE,
    ALL_TO_ALL,
    SEND_RECEIVE,
    COPY,
    COUNT
} what;
static const char *const names[COUNT] = {"barrier",        "broadcast",  "all_gather",
                                         "reduce_scatter", "all_reduce", "all_to_all",
                                         "send_receive",   "copy"};

/* The transport of the ranks. `bytes` is the size of the whole vector on each rank. */
typedef struct carrier {
    uint32_t rank, rank_count;
    unsigned char *from, *to; /* LARGEST bytes each */
    void (*run)(struct carrier *c, what w, size_t bytes);
    double (*slowest)(struct carrier *c, double seconds); /* maximum over all ranks */
    bool exposed;
    void *own;
} carrier;

static void stop_on(tsr_ctx *ctx, tsr_result result) {
    if (result.code == TSR_OK) return;
    fprintf(stderr, "transport_bench: %s\n", ctx->error.text);
    exit((int)result.code);
}

/* ---- by Tessera ---- */

static void run_shared(carrier *c, what w, size_t bytes) {
    static tsr_ctx ctx;
    tsr_transport *t = c->own;
    uint32_t n = c->rank_count, leaves[TSR_TRANSPORT_RANKS_MAX + 1];
    size_t first[TSR_TRANSPORT_RANKS_MAX + 1];
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
    size_t unit = w == REDUCE_SCATTER ? sizeof(float) : 1;
    for (uint32_t r = 0; r <= n; r++) {
        leaves[r] = r;
        first[r] = bytes / n / unit * r;
    }
    first[n] = bytes / unit;
    for (uint32_t r = 0; r < n; r++) {
        sends[r] = (tsr_transport_segment){c->from + bytes / n * r, bytes / n, true};
        receives[r] = (tsr_transport_segment){c->to + bytes / n * r, bytes / n, true};
    }
    tsr_reduce_options reduce = {TSR_REDUCTION_SUM_F32, n,         leaves, c->from, bytes,
                                 bytes / sizeof(float), c->exposed};
    switch (w) {
    case BARRIER:
        stop_on(&ctx, tsr_barrier(&ctx, t));
        break;
    case BROADCAST:
        stop_on(&ctx, tsr_broadcast(&ctx, t, 0, c->to, bytes));
        break;
    case ALL_GATHER:
        stop_on(&ctx, tsr_all_gather(&ctx, t, c->to, first));
        break;
    case REDUCE_SCATTER:
        stop_on(&ctx, tsr_reduce_scatter(&ctx, t, &reduce, first, c->to));
        break;
    case ALL_REDUCE:
        stop_on(&ctx, tsr_all_reduce(&ctx, t, &reduce, c->to));
        break;
    case ALL_TO_ALL:
        stop_on(&ctx, tsr_all_to_all(&ctx, t, sends, receives));
        break;
    case SEND_RECEIVE:
        if ((c->rank ^ 1) >= n) break;
        if (c->rank % 2 == 0) stop_on(&ctx, tsr_send(&ctx, t, c->rank + 1, c->from, bytes));
        stop_on(&ctx, tsr_receive(&ctx, t, c->rank ^ 1, c->to, bytes));
        if (c->rank % 2 == 1) stop_on(&ctx, tsr_send(&ctx, t, c->rank - 1, c->from, bytes));
        break;
    default:
        memcpy(c->to, c->from, bytes);
        break;
    }
}

static double slowest_shared(carrier *c, double seconds) {
    tsr_ctx ctx = {0};
    double all = 0;
    uint32_t leaves[TSR_TRANSPORT_RANKS_MAX + 1];
    for (uint32_t r = 0; r <= c->rank_count; r++) leaves[r] = r;
    tsr_reduce_options reduce = {
        TSR_REDUCTION_MAX_F64, c->rank_count, leaves, &seconds, sizeof seconds, 1, false};
    stop_on(&ctx, tsr_all_reduce(&ctx, c->own, &reduce, &all));
    return all;
}

/* ---- by MPI ---- */

#ifdef TSR_BENCH_MPI
static void run_mpi(carrier *c, what w, size_t bytes) {
    int part = (int)(bytes / c->rank_count), count = (int)(bytes / sizeof(float));
    int floats = count / (int)c->rank_count, other = (int)(c->rank ^ 1);
    switch (w) {
    case BARRIER:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    case BROADCAST:
        MPI_Bcast(c->to, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        break;
    case ALL_GATHER:
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, c->to, part, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case REDUCE_SCATTER:
        MPI_Reduce_scatter_block(c->from, c->to, floats, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_REDUCE:
        MPI_Allreduce(c->from, c->to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALL_TO_ALL:
        MPI_Alltoall(c->from, part, MPI_BYTE, c->to, part, MPI_BYTE, MPI_COMM_WORLD);
        break;
    case SEND_RECEIVE:
        if (other >= (int)c->rank_count) break;
        if (c->rank % 2 == 0) MPI_Send(c->from, (int)bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
        MPI_Recv(c->to, (int)bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (c->rank % 2 == 1) MPI_Send(c->from, (int)bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
        break;
    default:
        memcpy(c->to, c->from, bytes);
        break;
    }
}

static double slowest_mpi(carrier *c, double seconds) {
    (void)c;
    double all = 0;
    MPI_Allreduce(&seconds, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}
#endif

/* ---- measuring ---- */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns the seconds of one call; repeats it often enough to be measurable. */
static double measure(carrier *c, what w, size_t bytes) {
    double rounds[ROUNDS];
    int count = bytes > (1 << 20) ? ROUNDS_LARGE : ROUNDS;
    int repeats = bytes >= (1 << 20) ? 2 : bytes >= (64 << 10) ? 20 : 200;
    for (int i = 0; i < count; i++) {
        c->run(c, BARRIER, 0);
        double start = tsr_clock_seconds();
        for (int j = 0; j < repeats; j++) c->run(c, w, bytes);
        rounds[i] = c->slowest(c, (tsr_clock_seconds() - start) / repeats);
    }
    qsort(rounds, (size_t)count, sizeof *rounds, compare);
    return rounds[count / 2] / (w == SEND_RECEIVE ? 2 : 1);
}

static void measure_size(carrier *c, size_t bytes) {
    double copy = measure(c, COPY, bytes);
    if (c->rank == 0)
        printf(", \"%zu_%s\": {\"copy_us\": %.3f", bytes >= 1024 ? bytes >> 10 : bytes,
               bytes >= 1024 ? "kib" : "b", copy * 1e6);
    for (what w = BROADCAST; w < COPY; w++) {
        if (bytes / sizeof(float) < c->rank_count) continue; /* every rank needs a part */
        double seconds = measure(c, w, bytes);
        if (c->rank == 0) printf(", \"%s_us\": %.3f", names[w], seconds * 1e6);
    }
    if (c->rank == 0) {
        printf("}");
        fflush(stdout);
    }
}

static void measure_all(carrier *c, const char *name, double handover) {
    memset(c->from, 0, LARGEST);
    memset(c->to, 0, LARGEST);
    double barrier = measure(c, BARRIER, 0);
    if (c->rank == 0) {
        printf("{\"by\": \"%s\", \"ranks\": %u, \"barrier_us\": %.3f", name, c->rank_count,
               barrier * 1e6);
        if (handover > 0) printf(", \"handover_us\": %.3f", handover * 1e6);
    }
    for (size_t i = 0; i < SIZE_COUNT; i++) measure_size(c, sizes[i]);
    if (c->rank == 0) printf("}\n");
}

/* Binds each rank to its own processor, if there are enough, as MPI launchers do. */
static bool bind_to_processor(uint32_t rank, uint32_t rank_count) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all) || (uint32_t)CPU_COUNT(&all) < rank_count)
        return false;
    for (size_t cpu = 0, index = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || index++ != rank) continue;
        CPU_SET(cpu, &one);
        return sched_setaffinity(0, sizeof one, &one) == 0;
    }
    return false;
}

/* Measures the seconds that a cache line takes from one processor to another: rank 0 writes odd
 * numbers, rank 1 even ones, each when it has seen the other's. */
static double measure_handover(tsr_transport *t, _Atomic uint32_t *line) {
    double rounds[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        tsr_ctx ctx = {0};
        stop_on(&ctx, tsr_barrier(&ctx, t));
        if (t->rank > 1) continue;
        uint32_t begin = (uint32_t)i * 2 * HANDOVERS;
        double start = tsr_clock_seconds();
        for (uint32_t j = begin + t->rank; j < begin + 2 * HANDOVERS; j += 2) {
            while (atomic_load_explicit(line, memory_order_acquire) != j) continue;
            atomic_store_explicit(line, j + 1, memory_order_release);
        }
        rounds[i] = (tsr_clock_seconds() - start) / (2 * HANDOVERS);
    }
    if (t->rank > 1) return 0;
    qsort(rounds, ROUNDS, sizeof *rounds, compare);
    return rounds[ROUNDS / 2];
}

/* The data that the processes of one run inherit by fork. */
typedef struct group {
    int fd;
    uint32_t rank_count;
    bool exposed;
    _Atomic uint32_t *line;
} group;

static void rank_main(const group *g, uint32_t rank) {
    bool bound = bind_to_processor(rank, g->rank_count);
    tsr_ctx ctx = {0};
    tsr_transport *t;
    size_t size;
    tsr_shared_join_options options = {.size_bytes = sizeof options,
                                       .fd = g->fd,
                                       .rank = rank,
                                       .deadline_ns = UINT64_C(60) * 1000000000u,
                                       .spin_ns = 100 * 1000};
    stop_on(&ctx, tsr_shared_join(&ctx, &options, &t));
    unsigned char *memory =
        g->exposed ? tsr_shared_get_heap(t, &size) : aligned_alloc(4096, 2 * LARGEST);
    if (!memory) abort();
    carrier c = {rank,       g->rank_count,  memory,     memory + LARGEST,
                 run_shared, slowest_shared, g->exposed, t};
    double handover = bound && g->rank_count > 1 ? measure_handover(t, g->line) : 0;
    measure_all(&c, g->exposed ? "shared memory, in place" : "shared memory", handover);
    if (!g->exposed) free(memory);
    tsr_transport_close(t);
}

static int main_shared(uint32_t rank_count, bool exposed) {
    tsr_ctx ctx = {0};
    int status, code = 0;
    tsr_shared_options options = {sizeof options, rank_count, exposed ? 2 * LARGEST : 0};
    group g = {.rank_count = rank_count, .exposed = exposed};
    stop_on(&ctx, tsr_shared_create(&ctx, &options, &g.fd));
    void *line = mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (line == MAP_FAILED) abort();
    g.line = line;
    for (uint32_t r = 1; r < rank_count; r++) {
        if (fork() != 0) continue;
        rank_main(&g, r);
        exit(0);
    }
    rank_main(&g, 0);
    while (wait(&status) > 0) code |= status;
    return code != 0;
}

static int main_mpi(void) {
#ifdef TSR_BENCH_MPI
    int rank, rank_count;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &rank_count);
    carrier c = {.rank = (uint32_t)rank,
                 .rank_count = (uint32_t)rank_count,
                 .from = aligned_alloc(4096, LARGEST),
                 .to = aligned_alloc(4096, LARGEST),
                 .run = run_mpi,
                 .slowest = slowest_mpi};
    if (!c.from || !c.to) abort();
    measure_all(&c, "MPI", 0);
    free(c.from);
    free(c.to);
    MPI_Finalize();
    return 0;
#else
    fprintf(stderr, "transport_bench: built without MPI\n");
    return TSR_USAGE;
#endif
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "mpi") == 0) return main_mpi();
    bool exposed = argc == 3 && strcmp(argv[1], "shared") == 0;
    bool is_known = exposed || (argc == 3 && strcmp(argv[1], "private") == 0);
    long rank_count = is_known ? strtol(argv[2], NULL, 10) : 0;
    if (rank_count < 1 || rank_count > 64) {
        fprintf(stderr, "usage: transport_bench shared|private RANKS | mpirun -n RANKS "
                        "transport_bench mpi\nRANKS is 1 to 64\n");
        return TSR_USAGE;
    }
    return main_shared((uint32_t)rank_count, exposed);
}
