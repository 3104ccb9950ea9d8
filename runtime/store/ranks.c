/* SPDX-License-Identifier: Apache-2.0
 *
 * One store for several ranks: the coordinator is on rank 0, and messages are sent over a
 * transport.
 *
 * In a round, rank 0 sends the coordinator's messages to each rank, all ranks obey, and their
 * answers are sent back. A letter before the messages states their size and the state of the store;
 * a conversation ends with the round in which the coordinator sends no messages. All ranks begin a
 * conversation at the same point of the program: opening, and each save.
 *
 * If ranks have tensors in parts, these are not the parts of the protocol: a rank sends the chunks
 * that it reads to the ranks that need them, and gathers the chunks that it writes (reshard.h).
 */
#include "runtime/base/plural.h"
#include "runtime/store/internal.h"
#include "runtime/transport/collective.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

bool tsr_store_is_first(const tsr_store *store) { return store->rank_number == 0; }

void tsr_store_name_work(const tsr_store *store, const char *region, uint64_t step) {
    if (!store->transport) return;
    store->transport->region = region;
    store->transport->step = step;
}

/* ---- the directory, on the other ranks ---- */

/* Opens the file of an epoch. Returns its descriptor, or -errno. */
static int open_epoch(const tsr_io *io, int root, uint64_t epoch, char name[TSR_NAME_TEXT_MAX]) {
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_EPOCH, .epoch = epoch}, name);
    return io->open(io->self, root, name, O_RDONLY | O_NOFOLLOW, 0);
}

/* Describes the directory to the other ranks: by the file that rank 0 has just created in it. */
static tsr_result identify_directory(tsr_ctx *ctx, tsr_store *store) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char name[TSR_NAME_TEXT_MAX];
    struct stat info = {0};
    int fd = open_epoch(io, store->root, store->coordinator->epoch, name);
    if (fd == -ENOENT) return TSR_SUCCESS; /* a planted bug creates none */
    int code = fd < 0 ? fd : io->fstat(io->self, fd, &info);
    if (fd >= 0) io->close(io->self, fd);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot open '%s'", name);
    store->epoch_device = (uint64_t)info.st_dev;
    store->epoch_file = (uint64_t)info.st_ino;
    return TSR_SUCCESS;
}

/* Hosts number the devices of a network file system differently, but not its files. */
static tsr_result compare_directory(tsr_ctx *ctx, const tsr_store *store, const tsr_letter *first,
                                    int found, const struct stat *info, const char *name) {
    char text[64] = "does not exist";
    if (found == 0 && (uint64_t)info->st_ino == first->file) return TSR_SUCCESS;
    if (found < 0 && found != -ENOENT)
        FAIL_ERRNO(ctx, TSR_IO, -found, "rank %" PRIu32 " cannot open '%s'", store->rank_number,
                   name);
    if (found == 0) snprintf(text, sizeof text, "is file %" PRIu64, (uint64_t)info->st_ino);
    FAIL(ctx, TSR_STATE,
         "the ranks do not share it: for rank 0, '%s' is file %" PRIu64
         " of device %u:%u; for rank %" PRIu32 ", it %s on device %u:%u",
         name, first->file, major(first->device), minor(first->device), store->rank_number, text,
         major(info->st_dev), minor(info->st_dev));
}

/* Rank 0 has created and claimed it. On another host, the same path may name a different directory.
 */
static tsr_result open_directory(tsr_ctx *ctx, tsr_store *store, const tsr_letter *first) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char name[TSR_NAME_TEXT_MAX];
    struct stat info = {0};
    store->root = io->open(io->self, TSR_IO_CWD, store->directory, O_RDONLY | O_DIRECTORY, 0);
    if (store->root < 0)
        FAIL_ERRNO(ctx, TSR_IO, -store->root,
                   "rank %" PRIu32 " cannot open the directory that rank 0 has opened",
                   store->rank_number);
    int fd = open_epoch(io, store->root, first->epoch, name);
    int found = io->fstat(io->self, fd < 0 ? store->root : fd, &info);
    if (fd >= 0) io->close(io->self, fd);
    TRY(ctx, compare_directory(ctx, store, first, fd < 0 ? fd : found, &info, name));
    store->gens = io->open(io->self, store->root, "gen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (store->gens < 0) FAIL_ERRNO(ctx, TSR_IO, -store->gens, "cannot open 'gen'");
    store->rank->options.root = store->root;
    store->rank->options.gens = store->gens;
    return TSR_SUCCESS;
}

/* ---- a round ---- */

static tsr_result lost(tsr_ctx *ctx, tsr_store *store, tsr_result result) {
    if (!result.code || store->lost) return result;
    snprintf(store->lost_text, sizeof store->lost_text, "%s", ctx->error.text);
    store->lost = true;
    return result;
}

/* Sends one piece to each other rank and receives one from each. */
static tsr_result exchange(tsr_ctx *ctx, tsr_store *store, const tsr_transport_segment *sends,
                           const tsr_transport_segment *receives) {
    return lost(ctx, store, tsr_all_to_all(ctx, store->transport, sends, receives));
}

static tsr_transport_segment segment(void *bytes, size_t size_bytes) {
    return (tsr_transport_segment){
        .bytes = bytes, .size_bytes = size_bytes, .active = size_bytes > 0};
}

static tsr_result check_capacity(tsr_ctx *ctx, const tsr_mailbox *box, uint32_t from,
                                 uint64_t size) {
    if (size > box->capacity - box->used)
        FAIL(ctx, TSR_RANK,
             "rank %" PRIu32 " sends %" PRIu64 " byte%s about the state; there is room for %zu",
             from, size, TSR_PLURAL(size), box->capacity - box->used);
    return TSR_SUCCESS;
}

/* Sends from rank 0 to all: letters, then the coordinator's messages to each rank. */
static tsr_result hand_out(tsr_ctx *ctx, tsr_store *store, tsr_letter *own) {
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX] = {0},
                          receives[TSR_TRANSPORT_RANKS_MAX] = {0};
    tsr_letter *letters = store->letters;
    bool is_first = tsr_store_is_first(store);
    if (is_first)
        for (uint32_t r = 1; r < store->rank_count; r++) {
            letters[r] = *own;
            letters[r].size_bytes = store->posts[r].used;
            sends[r] = segment(&letters[r], sizeof letters[r]);
        }
    else
        receives[0] = segment(own, sizeof *own);
    TRY(ctx, exchange(ctx, store, sends, receives));
    if (!is_first) TRY(ctx, check_capacity(ctx, &store->to_rank, 0, own->size_bytes));
    for (uint32_t r = 1; is_first && r < store->rank_count; r++)
        sends[r] = segment(store->posts[r].bytes, store->posts[r].used);
    if (!is_first) receives[0] = segment(store->to_rank.bytes, (size_t)own->size_bytes);
    TRY(ctx, exchange(ctx, store, sends, receives));
    for (uint32_t r = 1; is_first && r < store->rank_count; r++) store->posts[r].used = 0;
    if (!is_first) store->to_rank.used = (size_t)own->size_bytes;
    return TSR_SUCCESS;
}

/* All ranks send to rank 0: letters, then the answers, which are stored after the answers of rank
 * 0. */
static tsr_result collect(tsr_ctx *ctx, tsr_store *store) {
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX] = {0},
                          receives[TSR_TRANSPORT_RANKS_MAX] = {0};
    tsr_letter *letters = store->letters;
    tsr_mailbox *box = &store->to_coordinator;
    bool is_first = tsr_store_is_first(store);
    letters[0] = (tsr_letter){.size_bytes = box->used};
    for (uint32_t r = 1; is_first && r < store->rank_count; r++)
        receives[r] = segment(&letters[r], sizeof letters[r]);
    if (!is_first) sends[0] = segment(&letters[0], sizeof letters[0]);
    TRY(ctx, exchange(ctx, store, sends, receives));
    for (uint32_t r = 1; is_first && r < store->rank_count; r++) {
        TRY(ctx, check_capacity(ctx, box, r, letters[r].size_bytes));
        receives[r] = segment(box->bytes + box->used, (size_t)letters[r].size_bytes);
        box->used += (size_t)letters[r].size_bytes;
    }
    if (!is_first) sends[0] = segment(box->bytes, box->used);
    TRY(ctx, exchange(ctx, store, sends, receives));
    if (!is_first) box->used = 0;
    return TSR_SUCCESS;
}

static bool has_nothing_to_say(const tsr_store *store) {
    bool nothing = !store->to_rank.used;
    for (uint32_t r = 1; r < store->rank_count; r++) nothing = nothing && !store->posts[r].used;
    return nothing;
}

/* Takes over the state of the store from rank 0, sent with the messages of a round or in the last
 * letter. */
static tsr_result take_note(tsr_ctx *ctx, tsr_store *store, const tsr_letter *from_first) {
    bool committed = from_first->outcome.committed_count > store->outcome.committed_count;
    if (store->gens < 0) TRY(ctx, open_directory(ctx, store, from_first));
    store->outcome = from_first->outcome;
    if (committed) store->on_committed(store);
    return TSR_SUCCESS;
}

tsr_result tsr_store_converse(tsr_ctx *ctx, tsr_store *store) {
    tsr_result first = TSR_SUCCESS;
    bool is_first = tsr_store_is_first(store);
    if (store->lost) FAIL(ctx, TSR_RANK, "%s", store->lost_text);
    if (is_first && !store->epoch_file) TRY(ctx, identify_directory(ctx, store));
    for (tsr_letter now = {0}; !now.is_last;) {
        if (is_first)
            now = (tsr_letter){.epoch = store->coordinator->epoch,
                               .device = store->epoch_device,
                               .file = store->epoch_file,
                               .outcome = store->outcome,
                               .is_last = has_nothing_to_say(store)};
        TRY(ctx, hand_out(ctx, store, &now));
        if (!is_first) TRY(ctx, take_note(ctx, store, &now));
        if (now.is_last) break;
        tsr_store_obey(ctx, store);
        TRY(ctx, collect(ctx, store));
        if (is_first) tsr_store_hear(ctx, store, &first);
    }
    if (!is_first && store->outcome.code)
        FAIL(ctx, TSR_RANK, "rank 0 failed: %s", store->outcome.text);
    return first;
}

/* ---- the recovered state ---- */

tsr_result tsr_store_share_recovery(tsr_ctx *ctx, tsr_store *store) {
    return lost(ctx, store,
                tsr_broadcast(ctx, store->transport, 0, &store->recovery, sizeof store->recovery));
}

/* Returns the address of a piece of a chunk: in staging for a save, or where it was read. */
static uint8_t *in_chunk(const tsr_store *store, const tsr_move *move, bool staged) {
    const tsr_chunk_row *chunk = &store->plan.chunks[move->chunk];
    uint64_t width = tsr_dtype_size(store->plan.tensors[move->tensor].dtype);
    uint64_t at = move->elements.first * width;
    if (staged) return tsr_store_staged(store, chunk) + at - chunk->first * width;
    return (uint8_t *)((uintptr_t)store->landed[move->tensor] + at);
}

static uint8_t *in_tensor(const tsr_store *store, const tsr_move *move) {
    const tsr_tensor_row *row = &store->plan.tensors[move->tensor];
    uint64_t width = tsr_dtype_size(row->dtype);
    tsr_elements own = tsr_sharding_range(tsr_row_bytes(row) / width,
                                          store->parts ? store->parts[move->tensor] : 0,
                                          store->rank_number, store->rank_count);
    return (uint8_t *)store->tensor_data[move->tensor] + (move->elements.first - own.first) * width;
}

typedef struct round {
    tsr_transport_segment sends[TSR_TRANSPORT_RANKS_MAX], receives[TSR_TRANSPORT_RANKS_MAX];
    bool meets;
} round;

static void add_move(const tsr_store *store, const tsr_move *move, bool to_chunks, round *r) {
    uint8_t *chunk = in_chunk(store, move, to_chunks), *tensor = in_tensor(store, move);
    uint8_t *from = to_chunks ? tensor : chunk, *to = to_chunks ? chunk : tensor;
    uint64_t width = tsr_dtype_size(store->plan.tensors[move->tensor].dtype);
    size_t size = (size_t)(move->elements.count * width);
    if (move->from == move->to) {
        if (from != to) memcpy(to, from, size);
    } else if (move->from == store->rank_number) {
        r->sends[move->to] = segment(from, size);
        r->meets = true;
    } else {
        r->receives[move->from] = segment(to, size);
        r->meets = true;
    }
}

/* Runs the moves round by round; in a round, each rank exchanges only with the ranks that it sends
 * to or receives from. */
static tsr_result run_moves(tsr_ctx *ctx, tsr_store *store, const tsr_moves *all, bool to_chunks) {
    for (size_t i = 0; i < all->count;) {
        round r = {.meets = false};
        uint32_t number = all->moves[i].round;
        for (; i < all->count && all->moves[i].round == number; i++)
            add_move(store, &all->moves[i], to_chunks, &r);
        const tsr_exchange met = {TSR_OPERATION_SEND, r.sends, r.receives, false};
        if (r.meets)
            TRY(ctx, lost(ctx, store, tsr_transport_exchange(ctx, store->transport, &met)));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_store_hand_on(tsr_ctx *ctx, tsr_store *store) {
    tsr_arena arena = {0};
    tsr_moves moves;
    const tsr_sharding sharding = {store->rank_count, store->parts};
    tsr_result result = tsr_moves_plan(ctx, &arena, &store->plan, &sharding, store->rank_number,
                                       TSR_FROM_CHUNKS, &moves);
    if (!result.code) result = run_moves(ctx, store, &moves, false);
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_store_gather(tsr_ctx *ctx, tsr_store *store) {
    if (store->lost) FAIL(ctx, TSR_RANK, "%s", store->lost_text);
    return run_moves(ctx, store, &store->to_chunks, true);
}

tsr_result tsr_store_share_nonfinite(tsr_ctx *ctx, tsr_store *store) {
    const tsr_nonfinite *own = &store->status.nonfinite;
    struct shared {
        bool found;
        tsr_finding what;
    } all[TSR_TRANSPORT_RANKS_MAX] = {0};
    all[store->rank_number].found = own->found;
    if (own->found)
        all[store->rank_number].what =
            (tsr_finding){store->nonfinite_row, own->element, own->value};
    TRY(ctx, lost(ctx, store, tsr_all_gather_each(ctx, store->transport, all, sizeof *all)));
    for (uint32_t r = 0; r < store->rank_count; r++)
        if (all[r].found) tsr_store_note_nonfinite(store, &all[r].what);
    return TSR_SUCCESS;
}
