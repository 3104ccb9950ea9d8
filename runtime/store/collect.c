/* SPDX-License-Identifier: Apache-2.0
 *
 * Removing what is no longer needed. Nothing of a higher epoch is ever touched. A crash between any
 * two calls leaves either a whole generation or segments without a manifest, which the next sweep
 * takes.
 */
#include "runtime/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

void tsr_store_add_good(tsr_store *store, uint64_t epoch, uint64_t generation) {
    if (store->good_count == store->keep) {
        memmove(store->good, store->good + 1, (store->keep - 1) * sizeof *store->good);
        store->good_count--;
    }
    store->good[store->good_count++] =
        (tsr_name){.kind = TSR_NAME_MANIFEST, .epoch = epoch, .generation = generation};
}

static bool is_good(const tsr_store *store, const tsr_name *name) {
    for (uint32_t i = 0; i < store->good_count; i++)
        if (store->good[i].epoch == name->epoch && store->good[i].generation == name->generation)
            return true;
    return false;
}

static bool epoch_has_manifest(const tsr_listing *listing, uint64_t epoch) {
    for (size_t i = 0; i < listing->count; i++)
        if (listing->names[i].kind == TSR_NAME_MANIFEST && listing->names[i].epoch == epoch)
            return true;
    return false;
}

/* Failing to remove is harmless: the next collection finds it again. But what failed may have been
 * done. */
static void remove_name(tsr_ctx *ctx, const tsr_store *store, const tsr_name *name) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    io->unlink(io->self, store->root, tsr_name_format(name, text), 0);
}

tsr_result tsr_store_sweep(tsr_ctx *ctx, tsr_store *store) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char text[TSR_NAME_TEXT_MAX];
    TRY(ctx, tsr_disk_list(ctx, store->gens, &store->gen_names));
    for (size_t i = 0; i < store->gen_names.count; i++) {
        tsr_name name = store->gen_names.names[i];
        if (name.kind != TSR_NAME_GENERATION || name.epoch > store->epoch || is_good(store, &name))
            continue;
        tsr_name manifest = name;
        manifest.kind = TSR_NAME_MANIFEST;
        int fd = io->open(io->self, store->root, tsr_name_format(&manifest, text),
                          O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
        if (fd >= 0) io->close(io->self, fd);
        if (fd != -ENOENT) continue;
        TRY(ctx, tsr_disk_remove_generation(ctx, store->gens, &name, &store->segment_names));
    }
    return TSR_SUCCESS;
}

/* A BASE goes a cycle after the last manifest of its epoch, whose absence is durable by then. */
static void remove_records(tsr_ctx *ctx, tsr_store *store) {
    const tsr_listing *names = &store->root_names;
    for (size_t i = 0; i < names->count; i++) {
        const tsr_name *name = &names->names[i];
        bool stale = name->epoch < store->epoch;
        if ((name->kind == TSR_NAME_TEMP && name->epoch <= store->epoch) ||
            (name->kind == TSR_NAME_EPOCH && stale) ||
            (name->kind == TSR_NAME_BASE && stale && !names->overflow &&
             !epoch_has_manifest(names, name->epoch)))
            remove_name(ctx, store, name);
    }
}

tsr_result tsr_store_remove_old(tsr_ctx *ctx, tsr_store *store) {
    bool removed = false;
    if (store->good_count < store->keep || store->root_suspect) return TSR_SUCCESS;
    TRY(ctx, tsr_disk_list(ctx, store->root, &store->root_names));
    remove_records(ctx, store);
    for (size_t i = 0; i < store->root_names.count; i++) {
        const tsr_name *name = &store->root_names.names[i];
        if (name->kind != TSR_NAME_MANIFEST || name->epoch > store->epoch || is_good(store, name))
            continue;
        remove_name(ctx, store, name);
        removed = true;
    }
    if (removed) {
        tsr_result result = tsr_disk_sync(ctx, store->root, store->directory);
        store->root_suspect = result.code != TSR_OK;
        TRY(ctx, result);
    }
    return tsr_store_sweep(ctx, store);
}

tsr_result tsr_store_collect(tsr_ctx *ctx, tsr_store *store) {
    const tsr_token *newest = &store->plan.token;
    TRY(ctx, tsr_read_state(ctx, store->reader, store->gens, &store->plan, NULL, true));
    tsr_store_add_good(store, newest->epoch, newest->generation);
    return tsr_store_remove_old(ctx, store);
}
