/* SPDX-License-Identifier: Apache-2.0
 *
 * One store of several ranks: the coordinator is that of rank 0, and messages go over a transport.
 *
 * In a round rank 0 sends each rank what the coordinator has for it, all obey, and what they answer
 * goes back. A letter before the messages says how long they are and what became of the store so
 * far; the last round of a conversation is the one in which the coordinator has nothing to say. All
 * ranks begin a conversation at the same place of the program: opening, and each save.
 */
#include "runtime/store/internal.h"
#include "runtime/transport/collective.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool tsr_store_is_first(const tsr_store *store) { return store->rank_number == 0; }

/* ---- the directory, as the other ranks see it ---- */

/* Rank 0 has made and claimed it. What lies under the same name on another host may be another. */
static tsr_result open_directory(tsr_ctx *ctx, tsr_store *store, uint64_t epoch) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char name[TSR_NAME_TEXT_MAX];
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_EPOCH, .epoch = epoch}, name);
    store->root = io->open(io->self, TSR_IO_CWD, store->directory, O_RDONLY | O_DIRECTORY, 0);
    if (store->root < 0)
        FAIL_ERRNO(ctx, TSR_IO, -store->root,
                   "rank %" PRIu32 " cannot open the directory that rank 0 has opened",
                   store->rank_number);
    int seen = io->open(io->self, store->root, name, O_RDONLY | O_NOFOLLOW, 0);
    if (seen < 0)
        FAIL_ERRNO(ctx, TSR_IO, -seen,
                   "rank %" PRIu32
                   " finds no '%s' in it: rank 0 has another directory of that name",
                   store->rank_number, name);
    io->close(io->self, seen);
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

/* One piece to and from each rank but the own. */
static tsr_result exchange(tsr_ctx *ctx, tsr_store *store, const tsr_piece *sends,
                           const tsr_piece *receives) {
    return lost(ctx, store, tsr_all_to_all(ctx, store->transport, sends, receives));
}

static tsr_piece piece(void *bytes, size_t size_bytes) {
    return (tsr_piece){.bytes = bytes, .size_bytes = size_bytes, .active = size_bytes > 0};
}

static tsr_result check_room(tsr_ctx *ctx, const tsr_mailbox *box, uint32_t from, uint64_t size) {
    if (size > box->room - box->used)
        FAIL(ctx, TSR_RANK,
             "rank %" PRIu32 " sends %" PRIu64 " bytes about the state; there is room for %zu",
             from, size, box->room - box->used);
    return TSR_SUCCESS;
}

/* From rank 0 to all: letters, then what the coordinator has for each. */
static tsr_result hand_out(tsr_ctx *ctx, tsr_store *store, tsr_letter *own) {
    tsr_piece sends[TSR_TRANSPORT_RANKS_MAX] = {0}, receives[TSR_TRANSPORT_RANKS_MAX] = {0};
    tsr_letter *letters = store->letters;
    bool is_first = tsr_store_is_first(store);
    if (is_first)
        for (uint32_t r = 1; r < store->rank_count; r++) {
            letters[r] = *own;
            letters[r].size_bytes = store->posts[r].used;
            sends[r] = piece(&letters[r], sizeof letters[r]);
        }
    else
        receives[0] = piece(own, sizeof *own);
    TRY(ctx, exchange(ctx, store, sends, receives));
    if (!is_first) TRY(ctx, check_room(ctx, &store->to_rank, 0, own->size_bytes));
    for (uint32_t r = 1; is_first && r < store->rank_count; r++)
        sends[r] = piece(store->posts[r].bytes, store->posts[r].used);
    if (!is_first) receives[0] = piece(store->to_rank.bytes, (size_t)own->size_bytes);
    TRY(ctx, exchange(ctx, store, sends, receives));
    for (uint32_t r = 1; is_first && r < store->rank_count; r++) store->posts[r].used = 0;
    if (!is_first) store->to_rank.used = (size_t)own->size_bytes;
    return TSR_SUCCESS;
}

/* From all to rank 0: letters, then the answers, behind its own rank's. */
static tsr_result collect(tsr_ctx *ctx, tsr_store *store) {
    tsr_piece sends[TSR_TRANSPORT_RANKS_MAX] = {0}, receives[TSR_TRANSPORT_RANKS_MAX] = {0};
    tsr_letter *letters = store->letters;
    tsr_mailbox *box = &store->to_coordinator;
    bool is_first = tsr_store_is_first(store);
    letters[0] = (tsr_letter){.size_bytes = box->used};
    for (uint32_t r = 1; is_first && r < store->rank_count; r++)
        receives[r] = piece(&letters[r], sizeof letters[r]);
    if (!is_first) sends[0] = piece(&letters[0], sizeof letters[0]);
    TRY(ctx, exchange(ctx, store, sends, receives));
    for (uint32_t r = 1; is_first && r < store->rank_count; r++) {
        TRY(ctx, check_room(ctx, box, r, letters[r].size_bytes));
        receives[r] = piece(box->bytes + box->used, (size_t)letters[r].size_bytes);
        box->used += (size_t)letters[r].size_bytes;
    }
    if (!is_first) sends[0] = piece(box->bytes, box->used);
    TRY(ctx, exchange(ctx, store, sends, receives));
    if (!is_first) box->used = 0;
    return TSR_SUCCESS;
}

static bool has_nothing_to_say(const tsr_store *store) {
    bool nothing = !store->to_rank.used;
    for (uint32_t r = 1; r < store->rank_count; r++) nothing = nothing && !store->posts[r].used;
    return nothing;
}

/* What rank 0 tells of the store, with the messages of this round or as its last word. */
static tsr_result take_note(tsr_ctx *ctx, tsr_store *store, const tsr_letter *from_first) {
    bool committed = from_first->outcome.committed_count > store->outcome.committed_count;
    if (store->gens < 0) TRY(ctx, open_directory(ctx, store, from_first->epoch));
    store->outcome = from_first->outcome;
    if (committed) store->on_committed(store);
    return TSR_SUCCESS;
}

tsr_result tsr_store_converse(tsr_ctx *ctx, tsr_store *store) {
    tsr_result first = TSR_SUCCESS;
    bool is_first = tsr_store_is_first(store);
    if (store->lost) FAIL(ctx, TSR_RANK, "%s", store->lost_text);
    for (tsr_letter now = {0}; !now.is_last;) {
        if (is_first)
            now = (tsr_letter){.epoch = store->coordinator->epoch,
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

/* ---- what was recovered ---- */

tsr_result tsr_store_share_recovery(tsr_ctx *ctx, tsr_store *store) {
    return lost(ctx, store,
                tsr_broadcast(ctx, store->transport, 0, &store->recovery, sizeof store->recovery));
}

/* Byte at which the part of each rank begins in the tensor whose chunks begin with `first`. */
static void find_parts(const tsr_store *store, const tsr_manifest *plan, uint32_t first,
                       uint32_t count, size_t *first_byte) {
    for (uint32_t r = 0; r <= store->rank_count; r++) {
        uint32_t begin = r < store->rank_count
                             ? tsr_part_of(plan->chunk_count, r, store->rank_count).first
                             : plan->chunk_count;
        first_byte[r] = 0;
        for (uint32_t i = first; i < first + count && i < begin; i++)
            first_byte[r] += plan->chunks[i].size_bytes;
    }
}

tsr_result tsr_store_share_landed(tsr_ctx *ctx, tsr_store *store, const tsr_manifest *plan,
                                  void *const *destinations) {
    size_t first_byte[TSR_TRANSPORT_RANKS_MAX + 1];
    uint32_t chunk = 0;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        find_parts(store, plan, chunk, plan->tensors[i].chunk_count, first_byte);
        chunk += plan->tensors[i].chunk_count;
        TRY(ctx,
            lost(ctx, store, tsr_all_gather(ctx, store->transport, destinations[i], first_byte)));
    }
    return TSR_SUCCESS;
}
