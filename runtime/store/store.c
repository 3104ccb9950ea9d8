/* SPDX-License-Identifier: Apache-2.0
 *
 * An open store: a rank, and on the first rank the coordinator. Opening, closing, pruning.
 */
#include "runtime/base/clock.h"
#include "runtime/base/plural.h"
#include "runtime/state/best.h"
#include "runtime/store/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- the outside world ---- */

static uint64_t now_ns(void *self) {
    (void)self;
    return tsr_clock_ns();
}
/* Makes a nonce for this opening. The number is made from the wall clock, because times since boot
 * could be equal in two boots. */
static uint64_t make_nonce(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void put_message(tsr_mailbox *box, const uint8_t *bytes, size_t size_bytes) {
    TSR_ASSERT(size_bytes + sizeof size_bytes <= box->capacity - box->used);
    memcpy(box->bytes + box->used, &size_bytes, sizeof size_bytes);
    memcpy(box->bytes + box->used + sizeof size_bytes, bytes, size_bytes);
    box->used += sizeof size_bytes + size_bytes;
}
static void send_to_rank(void *self, uint32_t rank, const uint8_t *bytes, size_t size_bytes) {
    tsr_store *store = self;
    put_message(rank == store->rank_number ? &store->to_rank : &store->posts[rank], bytes,
                size_bytes);
}
static void send_to_coordinator(void *self, uint32_t rank, const uint8_t *bytes,
                                size_t size_bytes) {
    tsr_store *store = self;
    (void)rank;
    put_message(&store->to_coordinator, bytes, size_bytes);
}
static void tell_event(void *self, const char *line) {
    const tsr_store *store = self;
    store->event(store->event_user, line);
}

static TSR_RESULT reserve_mailbox(tsr_ctx *ctx, tsr_mailbox *box, size_t message_bytes) {
    TSR_ASSERT(!box->used);
    /* Room for a large message and a few without digests. */
    size_t capacity = message_bytes + 4 * (tsr_message_size_max(0) + sizeof(size_t));
    uint8_t *bytes = realloc(box->bytes, capacity);
    if (!bytes) FAIL(ctx, TSR_MEMORY, "no memory for messages of %zu bytes", message_bytes);
    box->bytes = bytes;
    box->capacity = capacity;
    return TSR_SUCCESS;
}

tsr_result tsr_store_reserve_answers(tsr_ctx *ctx, tsr_store *store, uint32_t chunk_count) {
    size_t others = tsr_store_is_first(store) ? store->rank_count - 1 : 0;
    size_t small = tsr_message_size_max(0) + sizeof(size_t);
    return reserve_mailbox(ctx, &store->to_coordinator,
                           tsr_message_size_max(chunk_count) + others * small);
}

/* Returns the next message of a box from *at; NULL: no more messages. */
static const uint8_t *next_message(tsr_mailbox *box, size_t *at, size_t *out_size_bytes) {
    if (*at == box->used) return NULL;
    memcpy(out_size_bytes, box->bytes + *at, sizeof *out_size_bytes);
    *at += sizeof *out_size_bytes + *out_size_bytes;
    return box->bytes + *at - *out_size_bytes;
}

void tsr_store_obey(tsr_ctx *ctx, tsr_store *store) {
    const uint8_t *bytes;
    size_t size, at = 0;
    while ((bytes = next_message(&store->to_rank, &at, &size))) {
        store->rank_ctx.io = ctx->io;
        tsr_rank_receive(&store->rank_ctx, store->rank, bytes, size);
    }
    store->to_rank.used = 0;
}

void tsr_store_note_failure(tsr_store *store, const tsr_ctx *ctx, tsr_result result) {
    tsr_store_outcome *outcome = &store->outcome;
    if (!result.code || outcome->code) return;
    outcome->code = (tsr_code)result.code;
    snprintf(outcome->text, sizeof outcome->text, "%.*s", TSR_LETTER_TEXT_MAX - 1, ctx->error.text);
}

void tsr_store_hear(tsr_ctx *ctx, tsr_store *store, tsr_result *first) {
    const tsr_coordinator *c = store->coordinator;
    tsr_ctx aside = tsr_ctx_fork(ctx);
    const uint8_t *bytes;
    size_t size, at = 0;
    while ((bytes = next_message(&store->to_coordinator, &at, &size))) {
        uint64_t committed = c->committed_count;
        tsr_ctx *with = first->code ? &aside : ctx;
        tsr_result result = tsr_coordinator_receive(with, store->coordinator, bytes, size);
        tsr_store_note_failure(store, with, result);
        if (!first->code) *first = result;
        store->outcome.committed_count = c->committed_count;
        store->outcome.committed = c->committed;
        store->outcome.best = c->best;
        store->outcome.fenced = c->fenced;
        store->outcome.outcome_unknown = c->outcome_unknown;
        if (c->committed_count > committed) store->on_committed(store);
    }
    store->to_coordinator.used = 0;
}

tsr_result tsr_store_deliver(tsr_ctx *ctx, tsr_store *store) {
    tsr_result first = TSR_SUCCESS;
    if (store->transport) return tsr_store_converse(ctx, store);
    while (store->to_rank.used || store->to_coordinator.used) {
        tsr_store_obey(ctx, store);
        tsr_store_hear(ctx, store, &first);
    }
    return first;
}

/* ---- open and close ---- */

static tsr_result check_options(tsr_ctx *ctx, const tsr_store_options *options) {
    TSR_ASSERT(options->size_bytes == sizeof *options);
    if (!options->directory || !options->directory[0])
        FAIL(ctx, TSR_USAGE, "the path of the state directory is empty");
    if (options->keep < 2 || options->keep > TSR_KEEP_MAX)
        FAIL(ctx, TSR_USAGE, "%u generation%s to keep; expected 2 … %d", options->keep,
             TSR_PLURAL(options->keep), TSR_KEEP_MAX);
    const char *texts[] = {options->region, options->numerics};
    for (size_t i = 0; i < 2; i++)
        if (texts[i] && strlen(texts[i]) > TSR_TOKEN_TEXT_MAX)
            FAIL(ctx, TSR_USAGE, "a text for tokens has %zu byte%s; at most %d are stored",
                 strlen(texts[i]), TSR_PLURAL(strlen(texts[i])), TSR_TOKEN_TEXT_MAX);
    const char *wrong = options->identity ? tsr_identity_check(options->identity) : NULL;
    if (wrong) FAIL(ctx, TSR_USAGE, "the program of the store: %s", wrong);
    return TSR_SUCCESS;
}

static void put_values(tsr_values *to, const tsr_identity *from) {
    for (size_t i = 0; i < from->hyperparameter_count; i++) {
        snprintf(to->texts[i], sizeof to->texts[i], "%s", from->hyperparameters[i].value);
        to->list[i].value = to->texts[i];
        to->list[i].is_set = from->hyperparameters[i].is_set;
    }
}

/* `identity` is in the arena, and only its names stay in use. */
static void begin_values(tsr_store *store, const tsr_identity *identity) {
    for (size_t i = 0; i < identity->hyperparameter_count; i++)
        store->values.list[i].name = store->saved_values.list[i].name =
            identity->hyperparameters[i].name;
    put_values(&store->values, identity);
    store->identity =
        (tsr_identity){identity->program, identity->hyperparameter_count, store->values.list};
}

void tsr_store_set_hyperparameters(tsr_store *store, const tsr_identity *identity) {
    TSR_ASSERT(identity->hyperparameter_count == store->identity.hyperparameter_count);
    put_values(&store->values, identity);
}

void tsr_store_stage_hyperparameters(tsr_store *store) {
    put_values(&store->saved_values, &store->identity);
    store->plan.token.identity = (tsr_identity){
        store->identity.program, store->identity.hyperparameter_count, store->saved_values.list};
}

static tsr_result allocate(tsr_ctx *ctx, const tsr_store_options *options, tsr_store **out_store) {
    tsr_store *store = calloc(1, sizeof *store);
    if (!store) FAIL(ctx, TSR_MEMORY, "no memory for a state store");
    *store = (tsr_store){.ctx = tsr_ctx_fork(ctx),
                         .rank_ctx = tsr_ctx_fork(ctx),
                         .bundle_hash = options->bundle_hash,
                         .event = options->event,
                         .event_user = options->event_user,
                         .landing = options->tensors,
                         .landing_count = options->tensor_count,
                         .given_parts = options->tensor_parts,
                         .root = -1,
                         .gens = -1,
                         .transport = options->transport,
                         .rank_number = options->transport ? options->transport->rank : 0,
                         .rank_count = options->transport ? options->transport->rank_count : 1,
                         .keep = options->keep,
                         .finite = options->finite,
                         .source = options->source,
                         .segment_bytes_max = TSR_SEGMENT_BYTES_MAX};
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->changed, NULL);
    *out_store = store;
    tsr_store_name_work(store, "state", 0);
    store->directory = tsr_arena_strdup(&store->arena, options->directory);
    store->region = tsr_arena_strdup(&store->arena, options->region ? options->region : "");
    store->numerics = tsr_arena_strdup(&store->arena, options->numerics ? options->numerics : "");
    store->reader = tsr_reader_create();
    if (!store->directory || !store->region || !store->numerics || !store->reader)
        FAIL(ctx, TSR_MEMORY, "no memory for a state store");
    if (options->identity) {
        tsr_identity identity;
        TRY(ctx, tsr_identity_copy(ctx, options->identity, &store->arena, &identity));
        begin_values(store, &identity);
    }
    TRY(ctx, reserve_mailbox(ctx, &store->to_rank, 0));
    TRY(ctx, tsr_store_reserve_answers(ctx, store, 0));
    if (!store->transport) return TSR_SUCCESS;
    store->letters = TSR_NEW(&store->arena, tsr_letter, store->rank_count);
    store->posts = TSR_NEW(&store->arena, tsr_mailbox, store->rank_count);
    if (!store->letters || !store->posts) FAIL(ctx, TSR_MEMORY, "no memory for a state store");
    for (uint32_t r = 1; r < store->rank_count && tsr_store_is_first(store); r++)
        TRY(ctx, reserve_mailbox(ctx, &store->posts[r], 0));
    return TSR_SUCCESS;
}

const tsr_identity *tsr_store_get_recovered(const tsr_store *store) {
    if (!store->coordinator || !store->recovery.found) return NULL;
    return &store->coordinator->recovered.token.identity;
}

static tsr_result open_coordinator(tsr_ctx *ctx, tsr_store *store, const tsr_choice *choice,
                                   bool allow_network_fs, const tsr_outside *outside) {
    tsr_coordinator_options coordinator = {.size_bytes = sizeof coordinator,
                                           .directory = store->directory,
                                           .rank_count = store->rank_count,
                                           .keep = store->keep,
                                           .allow_network_fs = allow_network_fs,
                                           .choice = *choice,
                                           .outside = *outside};
    TRY(ctx, tsr_coordinator_open(ctx, &coordinator, &store->coordinator));
    store->root = store->coordinator->directory.root;
    store->gens = store->coordinator->directory.gens;
    return TSR_SUCCESS;
}

/* Has it been verified already, as the resumed generation or one that was counted? */
static bool is_verified(const tsr_coordinator *c, const tsr_best *best) {
    for (uint32_t i = 0; i < c->good_count; i++)
        if (c->good[i].name.generation == best->generation && c->good[i].name.epoch == best->epoch)
            return true;
    return false;
}

/* Reads the best generation, too: a run must not compare with a value whose state is lost. An older
 * generation than the newest may have been resumed, whose best one was removed since. */
static tsr_result recover_best(tsr_ctx *ctx, tsr_store *store) {
    tsr_coordinator *c = store->coordinator;
    tsr_arena arena = {0};
    tsr_manifest manifest;
    if (!c->best.generation || is_verified(c, &c->best)) return TSR_SUCCESS;
    tsr_result result = tsr_best_check(ctx, store->root, &arena, &c->best, &manifest);
    if (!result.code) {
        const tsr_part all = {0, manifest.chunk_count};
        result = tsr_read_part(ctx, store->reader, store->gens, &manifest, all, NULL, false);
    }
    tsr_arena_finish(&arena);
    if (result.code != TSR_STATE) return result;
    tsr_log(ctx, TSR_LOG_WARNING,
            "generation %" PRIu64 ", the best by %s, is not usable: %s; the next evaluation "
            "becomes the best",
            c->best.generation, c->best.metric, ctx->error.text);
    tsr_best_forget(&c->best);
    c->recovered.token.position.best = c->recovery.generation.position.best = c->best;
    return TSR_SUCCESS;
}

/* Prepares the store until the coordinator is idle: the generation to resume is chosen, and BASE
 * records it. The other ranks learn the directory from the first message. */
static tsr_result begin(tsr_ctx *ctx, tsr_store *store, const tsr_choice *choice,
                        bool allow_network_fs) {
    const tsr_outside outside = {.self = store,
                                 .now_ns = now_ns,
                                 .send = send_to_rank,
                                 .event = store->event ? tell_event : NULL,
                                 .process_id = (uint64_t)getpid(),
                                 .nonce = make_nonce()};
    tsr_rank_options rank = {.size_bytes = sizeof rank,
                             .rank = store->rank_number,
                             .rank_count = store->rank_count,
                             .data = tsr_store_data(store),
                             .outside = outside};
    if (tsr_store_is_first(store)) {
        TRY(ctx, open_coordinator(ctx, store, choice, allow_network_fs, &outside));
        rank.candidate = &store->coordinator->examined;
    }
    rank.root = store->root;
    rank.gens = store->gens;
    rank.outside.send = send_to_coordinator;
    TRY(ctx, tsr_rank_create(ctx, &rank, &store->rank));
    TRY(ctx, tsr_store_deliver(ctx, store));
    TSR_ASSERT(!store->coordinator || store->coordinator->phase == TSR_PHASE_IDLE);
    if (store->coordinator) {
        TRY(ctx, recover_best(ctx, store));
        store->recovery = store->coordinator->recovery;
    }
    if (store->transport) TRY(ctx, tsr_store_share_recovery(ctx, store));
    store->outcome.best = store->status.best = store->recovery.generation.position.best;
    return TSR_SUCCESS;
}

tsr_result tsr_store_open(tsr_ctx *ctx, const tsr_store_options *options, tsr_resume_mode mode,
                          uint64_t generation, tsr_store **out_store, tsr_recovery *out_recovery) {
    tsr_store *store = NULL;
    tsr_result result;
    TRY(ctx, check_options(ctx, options));
    TRY_GOTO(ctx, result, allocate(ctx, options, &store));
    const tsr_store_program program = {.bundle_hash = store->bundle_hash,
                                       .identity = &store->identity,
                                       .advice = options->advice,
                                       .tells_changes = true};
    const tsr_choice choice = {.mode = mode,
                               .generation = generation,
                               .program = &program,
                               .numerics = options->numerics ? store->numerics : NULL,
                               .allow_inexact = options->allow_inexact};
    TRY_GOTO(ctx, result, begin(ctx, store, &choice, options->allow_network_fs));
    /* Parts are assigned to the tensors in this order. */
    if (store->transport)
        TRY_GOTO(ctx, result, tsr_store_plan(ctx, store, options->tensors, options->tensor_count));
    *out_store = store;
    *out_recovery = store->recovery;
    return TSR_SUCCESS;
done:
    tsr_store_close(ctx, store);
    return tsr_error_prefix(ctx, result, "state directory '%s'", options->directory);
}

static void close_directory(tsr_ctx *ctx, const tsr_store *store) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (store->gens >= 0) io->close(io->self, store->gens);
    if (store->root >= 0) io->close(io->self, store->root);
}

void tsr_store_close(tsr_ctx *ctx, tsr_store *store) {
    if (!store) return;
    if (store->thread_started) {
        pthread_mutex_lock(&store->mutex);
        store->quit = true; /* takes effect when no save is running */
        pthread_cond_broadcast(&store->changed);
        pthread_mutex_unlock(&store->mutex);
        pthread_join(store->thread, NULL);
        tsr_store_poll(store);
    }
    tsr_rank_destroy(store->rank);
    if (!store->coordinator) close_directory(ctx, store);
    tsr_coordinator_close(ctx, store->coordinator);
    pthread_mutex_destroy(&store->mutex);
    pthread_cond_destroy(&store->changed);
    for (uint32_t r = 0; store->posts && r < store->rank_count; r++) free(store->posts[r].bytes);
    free(store->to_rank.bytes);
    free(store->to_coordinator.bytes);
    free(store->staging);
    tsr_reader_destroy(store->reader);
    tsr_arena_finish(&store->arena);
    free(store);
}

/* ---- pruning ---- */

/* Reports the error before LOCK is created in a directory that is not a store. */
static tsr_result check_is_store(tsr_ctx *ctx, const char *directory) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_name names[TSR_SCRATCH_NAMES];
    tsr_listing listing = {.names = names, .capacity = TSR_SCRATCH_NAMES};
    int root = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (root < 0) FAIL_ERRNO(ctx, TSR_IO, -root, "cannot open it");
    tsr_result result = tsr_disk_list(ctx, root, &listing);
    io->close(io->self, root);
    TRY(ctx, result);
    if (!listing.highest_epoch)
        FAIL(ctx, TSR_STATE, "it is not a state directory: it has no EPOCH and no MANIFEST");
    return TSR_SUCCESS;
}

static tsr_result remove_and_report(tsr_ctx *ctx, tsr_store *store, tsr_fsck_report_fn report,
                                    void *user) {
    char line[128];
    unsigned removed = 0, left = 0;
    tsr_listing before = {.arena = &store->arena}, after = before;
    TRY(ctx, tsr_disk_list(ctx, store->coordinator->directory.root, &before));
    /* Repeats if the names do not fit into the scratch memory. */
    for (size_t i = 0; i <= before.count / TSR_SCRATCH_NAMES; i++)
        TRY(ctx, tsr_coordinator_remove_old(ctx, store->coordinator));
    TRY(ctx, tsr_disk_list(ctx, store->coordinator->directory.root, &after));
    tsr_listing_sort(&after);
    for (size_t i = 0; i < before.count; i++) {
        const tsr_name *name = &before.names[i];
        if (name->kind != TSR_NAME_MANIFEST) continue;
        if (tsr_listing_has(&after, name->kind, name->epoch, name->generation)) {
            left++;
            continue;
        }
        removed++;
        snprintf(line, sizeof line, "removed generation %" PRIu64 " epoch %" PRIu64,
                 name->generation, name->epoch);
        report(user, line);
    }
    snprintf(line, sizeof line, "%u removed, %u left", removed, left);
    report(user, line);
    return TSR_SUCCESS;
}

tsr_result tsr_store_prune(tsr_ctx *ctx, const char *directory, uint32_t keep,
                           bool allow_network_fs, tsr_fsck_report_fn report, void *user) {
    const tsr_store_options options = {
        .size_bytes = sizeof options, .directory = directory, .keep = keep};
    const tsr_choice choice = {.mode = TSR_RESUME_AUTO, .refuse_damage = true};
    tsr_store *store = NULL;
    tsr_result result;
    TRY(ctx, check_options(ctx, &options));
    TRY_GOTO(ctx, result, check_is_store(ctx, directory));
    TRY_GOTO(ctx, result, allocate(ctx, &options, &store));
    TRY_GOTO(ctx, result, begin(ctx, store, &choice, allow_network_fs));
    TRY_GOTO(ctx, result, remove_and_report(ctx, store, report, user));
done:
    tsr_store_close(ctx, store);
    if (result.code) return tsr_error_prefix(ctx, result, "state directory '%s'", directory);
    return result;
}
