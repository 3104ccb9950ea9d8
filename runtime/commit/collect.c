/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes files that are no longer needed. Files of a higher epoch are never changed. A crash
 * between any two calls leaves either a complete generation or segments without a manifest, which
 * the next sweep removes.
 */
#include "runtime/commit/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

void tsr_collect_add_good(tsr_coordinator *c, tsr_retained retained) {
    if (TSR_MUTANT(ONE_STAYS)) c->good_count = 0;
    if (c->good_count == c->options.keep) {
        memmove(c->good, c->good + 1, (c->options.keep - 1) * sizeof *c->good);
        c->good_count--;
    }
    c->good[c->good_count++] = retained;
}

/* A generation to be kept: one of the newest, or the best one that one of these names. */
static bool is_good(const tsr_coordinator *c, const tsr_name *name) {
    for (uint32_t i = 0; i < c->good_count; i++)
        if (tsr_retained_has(&c->good[i], name)) return true;
    return false;
}

static bool epoch_has_manifest(const tsr_listing *sorted, uint64_t epoch) {
    size_t at = tsr_listing_find(sorted, TSR_NAME_MANIFEST, epoch, 0);
    return at < sorted->count && sorted->names[at].kind == TSR_NAME_MANIFEST &&
           sorted->names[at].epoch == epoch;
}

/* A failed removal is harmless: the next collection finds the file again. However, a removal that
 * failed may still have happened. */
static void remove_name(tsr_ctx *ctx, tsr_coordinator *c, const tsr_name *name) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    tsr_name_format(name, text);
    tsr_event_more(&c->events, "unlink", NULL, NULL, "\"name\":\"%s\"", text);
    io->unlink(io->self, c->directory.root, text, 0);
}

tsr_result tsr_collect_sweep(tsr_ctx *ctx, tsr_coordinator *c) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    tsr_result result = TSR_SUCCESS;
    TRY(ctx, tsr_disk_list(ctx, c->directory.gens, &c->gen_names));
    for (size_t i = 0; i < c->gen_names.count; i++) {
        tsr_name name = c->gen_names.names[i], manifest = name;
        bool later = name.epoch > c->epoch && !TSR_MUTANT(LATER_EPOCH_SWEPT);
        if (name.kind != TSR_NAME_GENERATION || later || is_good(c, &name) ||
            (name.epoch == c->epoch && name.generation == c->ready))
            continue;
        manifest.kind = TSR_NAME_MANIFEST;
        int fd = io->open(io->self, c->directory.root, tsr_name_format(&manifest, text),
                          O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
        if (fd >= 0) io->close(io->self, fd);
        if (fd != -ENOENT) continue;
        tsr_event_more(&c->events, "sweep", NULL, NULL, "\"name\":\"%s\"",
                       tsr_name_format(&name, text));
        /* A directory that cannot be removed does not block the others. */
        tsr_result removed =
            tsr_disk_remove_generation(ctx, c->directory.gens, &name, &c->segment_names);
        if (removed.code) result = removed;
    }
    return result;
}

/* A BASE is removed one cycle after the last manifest of its epoch, whose removal is durable by
 * then. */
static void remove_records(tsr_ctx *ctx, tsr_coordinator *c) {
    const tsr_listing *names = &c->root_names;
    for (size_t i = 0; i < names->count; i++) {
        const tsr_name *name = &names->names[i];
        bool stale = name->epoch < c->epoch;
        if ((name->kind == TSR_NAME_TEMP && name->epoch <= c->epoch) ||
            ((name->kind == TSR_NAME_EPOCH || name->kind == TSR_NAME_SPARE) && stale) ||
            (name->kind == TSR_NAME_BASE && stale && !names->overflow &&
             (!epoch_has_manifest(names, name->epoch) || TSR_MUTANT(BASE_REMOVED_EARLY))))
            remove_name(ctx, c, name);
    }
}

tsr_result tsr_coordinator_remove_old(tsr_ctx *ctx, tsr_coordinator *c) {
    bool removed = false;
    if ((c->good_count < c->options.keep && !TSR_MUTANT(ONE_STAYS)) || c->root_suspect)
        return TSR_SUCCESS;
    /* The run that took over the store reads it now. */
    tsr_result fence = tsr_save_check_fence(ctx, c);
    if (fence.code && !TSR_MUTANT(COLLECT_UNFENCED)) return fence;
    tsr_listing_sort(&c->root_names);
    tsr_event_more(&c->events, "collect", NULL, NULL, "\"good\":%" PRIu32 ",\"oldest\":%" PRIu64,
                   c->good_count, c->good[0].name.generation);
    remove_records(ctx, c);
    for (size_t i = 0; i < c->root_names.count; i++) {
        const tsr_name *name = &c->root_names.names[i];
        /* This generation was acknowledged but could not be read back: it is removed with the older
         * generations. */
        bool newer = name->epoch == c->epoch && name->generation > c->good[0].name.generation;
        if (TSR_MUTANT(UNREAD_REMOVED)) newer = false;
        if (name->kind != TSR_NAME_MANIFEST || newer || is_good(c, name)) continue;
        TSR_ASSERT(name->epoch <= c->epoch);
        const tsr_name data = {TSR_NAME_GENERATION, name->epoch, name->generation, 0, 0};
        if (TSR_MUTANT(SEGMENTS_FIRST))
            TRY(ctx, tsr_disk_remove_generation(ctx, c->directory.gens, &data, &c->segment_names));
        remove_name(ctx, c, name);
        removed = !TSR_MUTANT(REMOVAL_UNSYNCED);
    }
    if (removed) {
        tsr_result result = tsr_disk_sync(ctx, c->directory.root, c->options.directory);
        c->root_suspect = result.code != TSR_OK && !TSR_MUTANT(FAILED_REMOVAL_FORGOTTEN);
        tsr_event_more(&c->events, "unlinked", NULL, NULL, "\"durable\":%s",
                       c->root_suspect ? "false" : "true");
        TRY(ctx, result);
    }
    return tsr_collect_sweep(ctx, c);
}

tsr_result tsr_collect_read_back(tsr_ctx *ctx, tsr_coordinator *c) {
    tsr_result result = TSR_SUCCESS;
    c->phase = TSR_PHASE_IDLE;
    if (c->failed_verdict) result = tsr_coordinator_failure(ctx, c);
    if (c->failed_verdict == TSR_VERDICT_DAMAGED) {
        tsr_ctx aside = tsr_ctx_fork(ctx);
        /* A run that took over the store may have removed it; that is not damage. */
        if (tsr_save_check_fence(&aside, c).code == TSR_LOCKED)
            return tsr_save_fail(ctx, c, tsr_error_adopt(ctx, &aside), false);
        tsr_event(&c->events, "damaged", &c->previous, ctx->error.text);
        return tsr_error_prefix(ctx, result, "generation %" PRIu64 " cannot be read back",
                                c->previous.generation);
    }
    if (!result.code) {
        tsr_event_more(&c->events, "verified", &c->previous, NULL,
                       "\"purpose\":\"read-back\",\"bytes\":%" PRIu64,
                       tsr_manifest_data_bytes(c->plan));
        c->best = tsr_best_of(c->plan);
        tsr_collect_add_good(c, tsr_retained_of(c->plan));
        result = tsr_coordinator_remove_old(ctx, c);
    }
    if (result.code)
        tsr_log(ctx, TSR_LOG_WARNING, "old generations are kept for now: %s", ctx->error.text);
    tsr_save_make_ready(ctx, c);
    return TSR_SUCCESS;
}
