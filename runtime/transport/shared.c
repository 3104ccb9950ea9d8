/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining and leaving. A rank locks one byte of the file from joining to its end; the kernel
 * releases the lock when the process dies. In this way other ranks notice its death, and a rank
 * that is started twice is refused.
 */
#include "runtime/transport/shared.h"

#include "runtime/base/plural.h"
#include "runtime/transport/shared_end.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    SCRATCH_BYTES = 1 << 20,
    SLOT_BYTES_MIN = 4 << 10,
    SLOT_BYTES_MAX = 64 << 10,
    BOARD_BYTES_MIN = 4 << 10,
    BOARD_BYTES_MAX = 32 << 10,
    SPINS_MAX = 100,
};

#define ADDRESSES (UINT64_C(1) << 46) /* of the 47-bit address space of a process */

typedef struct layout {
    uint64_t seats, boards, channels, slots, heaps, slot_bytes, board_bytes, heap_bytes, total;
} layout;

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static uint64_t clamp(uint64_t value, uint64_t least, uint64_t most) {
    return value < least ? least : value > most ? most : value;
}

static bool find_layout(uint64_t rank_count, uint64_t heap_bytes, layout *out) {
    if (heap_bytes > ADDRESSES) return false;
    uint64_t slot = (UINT64_C(1) << 20) / rank_count, board = (UINT64_C(256) << 10) / rank_count;
    out->slot_bytes = round_up(clamp(slot, SLOT_BYTES_MIN, SLOT_BYTES_MAX), PAGE);
    out->board_bytes = round_up(clamp(board, BOARD_BYTES_MIN, BOARD_BYTES_MAX), PAGE);
    out->heap_bytes = round_up(heap_bytes, PAGE);
    out->seats = round_up(sizeof(shared_head), PAGE);
    out->boards = out->seats + round_up(rank_count * sizeof(shared_seat), PAGE);
    out->channels = out->boards + rank_count * BOARDS * out->board_bytes;
    out->slots = out->channels + round_up(rank_count * rank_count * sizeof(shared_channel), PAGE);
    out->heaps = out->slots + rank_count * rank_count * SLOTS * out->slot_bytes;
    out->total = out->heaps + rank_count * out->heap_bytes;
    return out->total <= ADDRESSES;
}

tsr_result tsr_shared_create(tsr_ctx *ctx, const tsr_shared_options *options, int *out_fd) {
    TSR_ASSERT(options->size_bytes == sizeof *options);
    layout l;
    if (options->rank_count == 0 || options->rank_count > TSR_TRANSPORT_RANKS_MAX)
        FAIL(ctx, TSR_USAGE, "%u rank%s asked for; 1 to %d are supported", options->rank_count,
             TSR_PLURAL(options->rank_count), TSR_TRANSPORT_RANKS_MAX);
    if (!find_layout(options->rank_count, options->heap_bytes, &l))
        FAIL(ctx, TSR_MEMORY, "%u rank%s of %" PRIu64 " byte%s each exceed the address space",
             options->rank_count, TSR_PLURAL(options->rank_count), options->heap_bytes,
             TSR_PLURAL(options->heap_bytes));
    int fd = memfd_create("tessera-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_MEMORY, errno, "cannot create memory for ranks to share");
    shared_head head = {.magic = TSR_SHARED_MAGIC,
                        .heap_bytes = l.heap_bytes,
                        .slot_bytes = l.slot_bytes,
                        .board_bytes = l.board_bytes,
                        .total_bytes = l.total,
                        .rank_count = options->rank_count};
    /* Memory that every run uses is allocated now: a lack of memory is an error here, not a signal
     * later. */
    if (ftruncate(fd, (off_t)l.total) || fallocate(fd, 0, 0, (off_t)l.slots) ||
        pwrite(fd, &head, sizeof head, 0) != (ssize_t)sizeof head ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        int code = errno;
        close(fd);
        FAIL_ERRNO(ctx, TSR_MEMORY, code, "cannot take %" PRIu64 " byte%s for %u rank%s to share",
                   l.total, TSR_PLURAL(l.total), options->rank_count,
                   TSR_PLURAL(options->rank_count));
    }
    *out_fd = fd;
    return TSR_SUCCESS;
}

unsigned char *tsr_shared_get_own_heap(const shared_end *s) {
    return s->heaps + s->base.rank * s->head->heap_bytes;
}

/* ---- joining and leaving ---- */

static void shared_fail(tsr_transport *t, tsr_code code, const char *text) {
    shared_end *s = (shared_end *)t;
    if (atomic_exchange(&s->head->failing, 1)) return; /* only the first failure counts */
    s->head->failed_rank = t->rank;
    s->head->failed_code = code;
    snprintf(s->head->failed_text, sizeof s->head->failed_text, "%s", text);
    atomic_store(&s->head->failed, 1);
    for (uint32_t r = 0; r < t->rank_count; r++) tsr_shared_wake(s, r);
}

static void shared_close(tsr_transport *t) {
    shared_end *s = (shared_end *)t;
    if (s->seats) {
        atomic_store(&s->seats[t->rank].left, 1);
        for (uint32_t r = 0; r < t->rank_count; r++)
            if (r != t->rank) tsr_shared_wake(s, r);
    }
    if (s->memory) munmap(s->memory, s->memory_bytes);
    if (s->fd >= 0) close(s->fd);
    free(s->flows);
    free(t->scratch);
    free(s);
}

static const tsr_transport_kind shared_kind = {
    .name = "shared memory",
    .exchange = tsr_shared_exchange,
    .meet = tsr_shared_meet,
    .can_expose = tsr_shared_is_in_heap,
    .expose = tsr_shared_expose,
    .retract = tsr_shared_retract,
    .watch = tsr_shared_watch,
    .fail = shared_fail,
    .close = shared_close,
};

/* Opens a separate file description, because locks belong to descriptions. */
static tsr_result reopen(tsr_ctx *ctx, shared_end *s, int fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    s->fd = open(path, O_RDWR | O_CLOEXEC);
    if (s->fd < 0) FAIL_ERRNO(ctx, TSR_IO, errno, "cannot open the memory that ranks share");
    struct stat about_it;
    if (fstat(s->fd, &about_it))
        FAIL_ERRNO(ctx, TSR_IO, errno, "cannot read the size of the memory that ranks share");
    s->memory_bytes = (size_t)about_it.st_size;
    if (s->memory_bytes < sizeof(shared_head))
        FAIL(ctx, TSR_CORRUPT, "memory that ranks share has %zu byte%s, not even a head of %zu",
             s->memory_bytes, TSR_PLURAL(s->memory_bytes), sizeof(shared_head));
    void *memory = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (memory == MAP_FAILED)
        FAIL_ERRNO(ctx, TSR_MEMORY, errno, "cannot map %zu byte%s that ranks share",
                   s->memory_bytes, TSR_PLURAL(s->memory_bytes));
    s->memory = memory;
    s->head = memory;
    return TSR_SUCCESS;
}

static tsr_result use_layout(tsr_ctx *ctx, shared_end *s) {
    const shared_head *head = s->head;
    layout l;
    if (head->magic != TSR_SHARED_MAGIC)
        FAIL(ctx, TSR_CORRUPT,
             "memory that ranks share begins with %016" PRIx64 ", not %016" PRIx64, head->magic,
             TSR_SHARED_MAGIC);
    if (head->rank_count == 0 || head->rank_count > TSR_TRANSPORT_RANKS_MAX ||
        !find_layout(head->rank_count, head->heap_bytes, &l) || l.slot_bytes != head->slot_bytes ||
        l.board_bytes != head->board_bytes || l.total != head->total_bytes ||
        l.total != s->memory_bytes)
        FAIL(ctx, TSR_CORRUPT,
             "memory that ranks share has %zu byte%s, %u rank%s' heaps of %" PRIu64,
             s->memory_bytes, TSR_PLURAL(s->memory_bytes), head->rank_count,
             TSR_PLURAL(head->rank_count), head->heap_bytes);
    s->base.rank_count = head->rank_count;
    s->base.meeting_bytes = l.board_bytes - sizeof(shared_board);
    s->seats = (shared_seat *)(s->memory + l.seats);
    s->boards = s->memory + l.boards;
    s->channels = (shared_channel *)(s->memory + l.channels);
    s->slots = s->memory + l.slots;
    s->heaps = s->memory + l.heaps;
    return TSR_SUCCESS;
}

static tsr_result sit_down(tsr_ctx *ctx, shared_end *s, uint32_t rank, bool is_private) {
    if (rank >= s->base.rank_count)
        FAIL(ctx, TSR_USAGE, "rank %u does not exist; the run has %u ranks", rank,
             s->base.rank_count);
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)rank, .l_len = 1};
    shared_seat *seat = &s->seats[rank];
    bool taken = fcntl(s->fd, F_OFD_SETLK, &lock) != 0;
    if (!taken && !atomic_load(&seat->joined) && !is_private) {
        s->probe_word = (TSR_SHARED_MAGIC ^ (uint64_t)getpid()) + rank;
        seat->process = getpid();
        seat->probe_address = (uint64_t)(uintptr_t)&s->probe_word;
        seat->probe_word = s->probe_word;
    }
    if (taken || atomic_exchange(&seat->joined, 1)) {
        FAIL(ctx, TSR_LOCKED, "rank %u of %u was started before%s", rank, s->base.rank_count,
             taken ? ", and runs" : "");
    }
    s->base.rank = rank;
    return TSR_SUCCESS;
}

static tsr_result join(tsr_ctx *ctx, const tsr_shared_join_options *options, shared_end *s) {
    TRY(ctx, reopen(ctx, s, options->fd));
    tsr_result result = use_layout(ctx, s);
    shared_seat *seats = s->seats;
    s->seats = NULL; /* a rank without a seat does not leave */
    TRY(ctx, result);
    s->flows = calloc(s->base.rank_count, sizeof *s->flows);
    s->base.scratch = aligned_alloc(64, SCRATCH_BYTES);
    s->base.scratch_bytes = SCRATCH_BYTES;
    if (!s->flows || !s->base.scratch)
        FAIL(ctx, TSR_MEMORY, "no memory for a transport of %u ranks", s->base.rank_count);
    s->seats = seats;
    /* If ranks share CPUs, a spinning rank takes CPU time from the ranks that it waits for. */
    s->spins_max = sysconf(_SC_NPROCESSORS_ONLN) >= (long)s->base.rank_count ? SPINS_MAX : 0;
    result = sit_down(ctx, s, options->rank, options->is_private);
    if (result.code) s->seats = NULL;
    return result;
}

tsr_result tsr_shared_join(tsr_ctx *ctx, const tsr_shared_join_options *options,
                           tsr_transport **out_transport) {
    TSR_ASSERT(options->size_bytes == sizeof *options);
    shared_end *s = calloc(1, sizeof *s);
    if (!s) FAIL(ctx, TSR_MEMORY, "no memory for a transport");
    s->base.kind = &shared_kind;
    s->base.deadline_ns = options->deadline_ns;
    s->spin_ns = options->spin_ns;
    s->fd = -1;
    tsr_result result = join(ctx, options, s);
    if (result.code) {
        shared_close(&s->base);
        return result;
    }
    *out_transport = &s->base;
    return TSR_SUCCESS;
}

void tsr_shared_describe(int fd, uint32_t rank, char *out_text, size_t size_bytes) {
    shared_end s = {.fd = -1};
    tsr_ctx ctx = {0};
    out_text[0] = '\0';
    tsr_result result = reopen(&ctx, &s, fd);
    if (!result.code) result = use_layout(&ctx, &s);
    if (!result.code && rank < s.base.rank_count && atomic_load(&s.seats[rank].joined)) {
        tsr_shared_describe_seat(&s, rank, out_text, size_bytes);
    }
    if (s.memory) munmap(s.memory, s.memory_bytes);
    if (s.fd >= 0) close(s.fd);
}

void *tsr_shared_get_heap(tsr_transport *t, size_t *out_size_bytes) {
    TSR_ASSERT(t->kind == &shared_kind);
    shared_end *s = (shared_end *)t;
    *out_size_bytes = s->head->heap_bytes;
    return tsr_shared_get_own_heap(s);
}
