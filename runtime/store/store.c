/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, in the order of the protocol: directory, lock, EPOCH, recovery, BASE. Loading and
 * reading.
 */
#include "runtime/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- directory and lock ---- */

/* One prefix of `path` after another: made where it is missing (make), or its parent synced, so
 * that no ancestor of a new store is lost with it. A parent that may not be opened was not made
 * here. */
static tsr_result walk_ancestors(tsr_ctx *ctx, const char *path, bool make) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char prefix[4096], parent[4096];
    size_t length = strlen(path);
    if (length >= sizeof prefix) FAIL(ctx, TSR_IO, "its path has %zu bytes", length);
    snprintf(parent, sizeof parent, "%s", path[0] == '/' ? "/" : ".");
    for (size_t i = 1; i <= length; i++) {
        if ((path[i] != '/' && path[i]) || path[i - 1] == '/') continue;
        memcpy(prefix, path, i);
        prefix[i] = 0;
        if (make) {
            int code = io->mkdir(io->self, TSR_IO_CWD, prefix, 0755);
            if (code < 0 && code != -EEXIST)
                FAIL_ERRNO(ctx, TSR_IO, -code, "cannot create '%s'", prefix);
        } else {
            tsr_result result = tsr_disk_sync_name(ctx, TSR_IO_CWD, parent, O_DIRECTORY);
            if (result.code && ctx->error.native != EACCES && ctx->error.native != EINVAL &&
                ctx->error.native != EROFS)
                TRY(ctx, result);
        }
        memcpy(parent, prefix, i + 1);
    }
    return TSR_SUCCESS;
}

static tsr_result open_directory(tsr_ctx *ctx, const char *directory, int *out_fd) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int fd = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (fd == -ENOENT) {
        TRY(ctx, walk_ancestors(ctx, directory, true));
        fd = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    }
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot open the directory");
    *out_fd = fd;
    return TSR_SUCCESS;
}

static tsr_result refuse_network(tsr_ctx *ctx, int fd) {
    static const struct {
        uint64_t magic;
        const char *name;
    } rows[] = {
        {0x6969, "NFS"},        {0x517B, "SMB"},      {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB2"},
        {0x65735546, "FUSE"},   {0x01021997, "9P"},   {0x00C36400, "Ceph"}, {0x5346414F, "AFS"},
        {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x73757245, "Coda"}, {0x564C, "NCP"},
        {0x7461636F, "OCFS2"},  {0x01161970, "GFS2"},
    };
    const tsr_io *io = tsr_ctx_io(ctx);
    uint64_t magic = 0;
    int code = io->fs_type(io->self, fd, &magic);
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot tell the file system");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].magic == magic)
            FAIL(ctx, TSR_STATE,
                 "it lies on a network file system (%s), which may lose what was synced; a local "
                 "one is needed, or a network file system must be allowed by name",
                 rows[i].name);
    return TSR_SUCCESS;
}

static tsr_result take_lock(tsr_ctx *ctx, tsr_store *store) {
    const tsr_io *io = tsr_ctx_io(ctx);
    char owner[256] = "", host[128] = "";
    store->lock = io->open(io->self, store->root, "LOCK", O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    if (store->lock < 0) FAIL_ERRNO(ctx, TSR_IO, -store->lock, "cannot open 'LOCK'");
    int code = io->lock(io->self, store->lock);
    if (code == -EWOULDBLOCK) {
        ssize_t size = io->pread(io->self, store->lock, owner, sizeof owner - 1, 0);
        owner[size > 0 ? (size_t)size : 0] = 0;
        owner[strcspn(owner, "\n")] = 0;
        FAIL(ctx, TSR_LOCKED, "it is in use by %s; this is process %ld",
             owner[0] ? owner : "another process", (long)getpid());
    }
    if (code < 0) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot lock 'LOCK'");
    gethostname(host, sizeof host - 1);
    int length = snprintf(owner, sizeof owner, "process %ld on %s\n", (long)getpid(), host);
    /* The text is for people; the lock itself does not need it. */
    if (io->ftruncate(io->self, store->lock, 0) >= 0)
        io->pwrite(io->self, store->lock, owner, (size_t)length, 0);
    return TSR_SUCCESS;
}

static tsr_result open_gens(tsr_ctx *ctx, tsr_store *store) {
    const tsr_io *io = tsr_ctx_io(ctx);
    int code = io->mkdir(io->self, store->root, "gen", 0755);
    if (code < 0 && code != -EEXIST) FAIL_ERRNO(ctx, TSR_IO, -code, "cannot create 'gen'");
    store->gens = io->open(io->self, store->root, "gen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (store->gens < 0) FAIL_ERRNO(ctx, TSR_IO, -store->gens, "cannot open 'gen'");
    return TSR_SUCCESS;
}

/* ---- epoch ---- */

static tsr_result publish_epoch(tsr_ctx *ctx, tsr_store *store) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_listing names = {.arena = &store->arena};
    char text[TSR_NAME_TEXT_MAX];
    TRY(ctx, tsr_disk_list(ctx, store->root, &names));
    store->epoch = tsr_listing_highest_epoch(&names) + 1;
    if (store->epoch > INT64_MAX)
        FAIL(ctx, TSR_STATE, "epoch %" PRIu64 " is out of range", store->epoch);
    bool fresh = true;
    for (size_t i = 0; i < names.count; i++) fresh &= names.names[i].kind != TSR_NAME_BASE;
    if (fresh) TRY(ctx, walk_ancestors(ctx, store->directory, false));
    tsr_name_format(&(tsr_name){.kind = TSR_NAME_EPOCH, .epoch = store->epoch}, text);
    int fd = io->open(io->self, store->root, text, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644);
    if (fd == -EEXIST) FAIL(ctx, TSR_LOCKED, "another run published '%s' at this moment", text);
    if (fd < 0) FAIL_ERRNO(ctx, TSR_IO, -fd, "cannot create '%s'", text);
    tsr_result result = tsr_disk_sync(ctx, fd, text);
    io->close(io->self, fd);
    TRY(ctx, result);
    return tsr_disk_sync(ctx, store->root, text);
}

/* ---- where a state lands ---- */

static uint64_t tensor_bytes(const tsr_tensor_row *row) {
    uint64_t size = 0;
    TSR_ASSERT(tsr_shape_size(&row->shape, row->dtype, &size));
    return size;
}

/* Both lists ascend by name, so the first difference tells what is missing or extra. */
static tsr_result match_tensors(tsr_ctx *ctx, const tsr_manifest *stored,
                                const tsr_manifest *wanted) {
    char a[TSR_TYPE_TEXT_MAX], b[TSR_TYPE_TEXT_MAX];
    for (uint32_t i = 0; i < stored->tensor_count || i < wanted->tensor_count; i++) {
        const tsr_tensor_row *have = i < stored->tensor_count ? &stored->tensors[i] : NULL;
        const tsr_tensor_row *want = i < wanted->tensor_count ? &wanted->tensors[i] : NULL;
        int order = !have ? 1 : !want ? -1 : strcmp(have->name, want->name);
        if (order < 0)
            FAIL(ctx, TSR_MISMATCH, "the state has tensor '%s' (%s), which the program has not",
                 have->name, tsr_type_format(have->dtype, &have->shape, a));
        if (order > 0)
            FAIL(ctx, TSR_MISMATCH, "the program has tensor '%s' (%s), which the state has not",
                 want->name, tsr_type_format(want->dtype, &want->shape, a));
        if (have->dtype != want->dtype || !tsr_shape_equal(&have->shape, &want->shape))
            FAIL(ctx, TSR_MISMATCH, "tensor '%s' is %s in the state; the program has %s",
                 have->name, tsr_type_format(have->dtype, &have->shape, a),
                 tsr_type_format(want->dtype, &want->shape, b));
    }
    return TSR_SUCCESS;
}

/* The caller's memory in the order of the manifest; TSR_MISMATCH with both values. */
static tsr_result find_destinations(tsr_ctx *ctx, const tsr_manifest *manifest,
                                    const tsr_tensor *tensors, size_t tensor_count,
                                    void **destinations) {
    tsr_arena arena = {0};
    tsr_manifest wanted;
    tsr_result result;
    const tsr_tensor **sorted = TSR_NEW(&arena, const tsr_tensor *, tensor_count + 1);
    if (!sorted) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    TRY_GOTO(ctx, result,
             tsr_manifest_plan(ctx, &arena, tensors, tensor_count,
                               &(tsr_division){TSR_SEGMENT_BYTES_MAX, 1}, sorted, &wanted));
    TRY_GOTO(ctx, result, match_tensors(ctx, manifest, &wanted));
    for (size_t i = 0; i < tensor_count; i++) destinations[i] = sorted[i]->data;
done:
    tsr_arena_finish(&arena);
    return result;
}

/* The tensors named at opening, else the memory that the saves to come will need anyway. Where
 * neither will do, what was verified is read again when it is loaded. */
static tsr_result land(tsr_ctx *ctx, void *user, const tsr_manifest *manifest,
                       void ***out_destinations) {
    tsr_store *store = user;
    void **destinations = TSR_NEW(&store->arena, void *, manifest->tensor_count + 1);
    tsr_result result = TSR_SUCCESS;
    store->landed = *out_destinations = NULL;
    if (!destinations) return TSR_SUCCESS;
    bool named =
        store->landing_count &&
        !find_destinations(ctx, manifest, store->landing, store->landing_count, destinations).code;
    if (!named) result = tsr_store_reserve_staging(ctx, store, manifest);
    tsr_error_clear(ctx);
    if (result.code) return TSR_SUCCESS;
    uint8_t *at = store->staging;
    for (uint32_t i = 0; !named && i < manifest->tensor_count; i++) {
        destinations[i] = at;
        at += tensor_bytes(&manifest->tensors[i]);
    }
    store->landed = *out_destinations = destinations;
    return TSR_SUCCESS;
}

/* ---- recovery, base ---- */

/* What goes on was perhaps published by a run that died before its last sync. */
static tsr_result sync_recovered(tsr_ctx *ctx, tsr_store *store) {
    const tsr_token *token = &store->recovered.token;
    tsr_name name = {
        .kind = TSR_NAME_MANIFEST, .epoch = token->epoch, .generation = token->generation};
    char text[TSR_NAME_TEXT_MAX];
    TRY(ctx, tsr_disk_sync_name(ctx, store->root, tsr_name_format(&name, text), 0));
    name.kind = TSR_NAME_GENERATION;
    TRY(ctx, tsr_disk_sync_name(ctx, store->gens, tsr_name_format(&name, text), O_DIRECTORY));
    TRY(ctx, tsr_disk_sync(ctx, store->gens, "gen"));
    return tsr_disk_sync(ctx, store->root, store->directory);
}

/* The recovered generation is known to be good. Where more generations than `keep` lie about, older
 * ones are verified too, so that the next collection may remove the rest. */
static tsr_result find_good(tsr_ctx *ctx, tsr_store *store, tsr_survey *survey, size_t index) {
    tsr_name older[2] = {{0}};
    size_t room = survey->candidate_count - index > store->keep ? store->keep - 1 : 0;
    tsr_name *found = room > 2 ? TSR_NEW(&store->arena, tsr_name, room) : older;
    size_t count = 0;
    if (!found) FAIL(ctx, TSR_MEMORY, "no memory for %zu names", room);
    for (size_t i = index + 1; i < survey->candidate_count && count < room; i++) {
        tsr_manifest manifest;
        bool good;
        TRY(ctx, tsr_survey_verify(ctx, survey, &survey->candidates[i], &good, &manifest));
        if (good) found[count++] = survey->candidates[i];
    }
    while (count--) tsr_store_add_good(store, found[count].epoch, found[count].generation);
    tsr_store_add_good(store, store->recovered.token.epoch, store->recovered.token.generation);
    return TSR_SUCCESS;
}

static tsr_result recover(tsr_ctx *ctx, tsr_store *store, const tsr_choice *choice,
                          tsr_recovery *recovery) {
    tsr_survey survey = {
        .root = store->root, .gens = store->gens, .arena = &store->arena, .reader = store->reader};
    size_t index;
    TRY(ctx, tsr_survey_take(ctx, &survey));
    TRY(ctx, tsr_survey_choose(ctx, &survey, choice, &index, &store->recovered));
    store->found = index < survey.candidate_count;
    store->next_generation = survey.highest_generation + 1;
    if (store->next_generation > INT64_MAX)
        FAIL(ctx, TSR_STATE, "generation %" PRIu64 " is out of range", survey.highest_generation);
    if (store->found) {
        TRY(ctx, find_good(ctx, store, &survey, index));
        TRY(ctx, sync_recovered(ctx, store));
        recovery->generation = tsr_manifest_generation(&store->recovered);
        store->previous = (tsr_link){recovery->generation.number, recovery->generation.epoch,
                                     recovery->generation.manifest_hash};
        store->previous_token = store->recovered.token_hash;
    }
    recovery->found = store->found;
    recovery->damaged_count = survey.damaged_count;
    recovery->uncommitted_count = survey.uncommitted_count;
    return TSR_SUCCESS;
}

static tsr_result publish_base(tsr_ctx *ctx, tsr_store *store) {
    uint8_t bytes[TSR_BASE_BYTES];
    bool unknown;
    tsr_base_encode(store->epoch, &store->previous, bytes);
    return tsr_disk_publish(ctx, store->root, store->epoch,
                            &(tsr_name){.kind = TSR_NAME_BASE, .epoch = store->epoch}, bytes,
                            sizeof bytes, &unknown);
}

/* ---- open and close ---- */

static tsr_result check_options(tsr_ctx *ctx, const tsr_store_options *options) {
    TSR_ASSERT(options->size_bytes == sizeof *options);
    if (!options->directory || !options->directory[0])
        FAIL(ctx, TSR_USAGE, "the path of the state directory is empty");
    if (options->keep < 2 || options->keep > TSR_STORE_KEEP_MAX)
        FAIL(ctx, TSR_USAGE, "%u generations cannot be kept; expected 2 … %d", options->keep,
             TSR_STORE_KEEP_MAX);
    const char *texts[] = {options->region, options->numerics};
    for (size_t i = 0; i < 2; i++)
        if (texts[i] && strlen(texts[i]) > TSR_TOKEN_TEXT_MAX)
            FAIL(ctx, TSR_USAGE, "a text for tokens has %zu bytes; at most %d are stored",
                 strlen(texts[i]), TSR_TOKEN_TEXT_MAX);
    return TSR_SUCCESS;
}

static tsr_result allocate(tsr_ctx *ctx, const tsr_store_options *options, tsr_store **out_store) {
    tsr_store *store = calloc(1, sizeof *store);
    if (!store) FAIL(ctx, TSR_MEMORY, "no memory for a state store");
    *store = (tsr_store){.ctx = tsr_ctx_fork(ctx),
                         .root = -1,
                         .gens = -1,
                         .lock = -1,
                         .bundle_hash = options->bundle_hash,
                         .keep = options->keep,
                         .landing = options->tensors,
                         .landing_count = options->tensor_count,
                         .segment_bytes_max = TSR_SEGMENT_BYTES_MAX};
    pthread_mutex_init(&store->mutex, NULL);
    pthread_cond_init(&store->changed, NULL);
    *out_store = store;
    tsr_listing *listings[] = {&store->root_names, &store->gen_names, &store->segment_names};
    for (size_t i = 0; i < 3; i++) {
        listings[i]->names = TSR_NEW(&store->arena, tsr_name, TSR_STORE_SCRATCH_NAMES);
        listings[i]->capacity = listings[i]->names ? TSR_STORE_SCRATCH_NAMES : 0;
    }
    store->directory = tsr_arena_strdup(&store->arena, options->directory);
    store->region = tsr_arena_strdup(&store->arena, options->region ? options->region : "");
    store->numerics = tsr_arena_strdup(&store->arena, options->numerics ? options->numerics : "");
    store->good = TSR_NEW(&store->arena, tsr_name, options->keep);
    store->reader = tsr_reader_create();
    if (!store->segment_names.capacity || !store->directory || !store->region || !store->numerics ||
        !store->good || !store->reader)
        FAIL(ctx, TSR_MEMORY, "no memory for a state store");
    return TSR_SUCCESS;
}

/* Up to the choice of what goes on. */
static tsr_result begin(tsr_ctx *ctx, tsr_store *store, const tsr_choice *choice,
                        bool allow_network_fs, tsr_recovery *recovery) {
    TRY(ctx, open_directory(ctx, store->directory, &store->root));
    if (!allow_network_fs) TRY(ctx, refuse_network(ctx, store->root));
    TRY(ctx, take_lock(ctx, store));
    TRY(ctx, open_gens(ctx, store));
    TRY(ctx, publish_epoch(ctx, store));
    return recover(ctx, store, choice, recovery);
}

tsr_result tsr_store_open(tsr_ctx *ctx, const tsr_store_options *options, tsr_resume_mode mode,
                          uint64_t generation, tsr_store **out_store, tsr_recovery *out_recovery) {
    tsr_recovery recovery = {0};
    tsr_store *store = NULL;
    tsr_result result;
    TRY(ctx, check_options(ctx, options));
    TRY_GOTO(ctx, result, allocate(ctx, options, &store));
    const tsr_choice choice = {.mode = mode,
                               .generation = generation,
                               .bundle_hash = &options->bundle_hash,
                               .numerics = options->numerics,
                               .allow_inexact = options->allow_inexact,
                               .land = land,
                               .land_user = store};
    TRY_GOTO(ctx, result, begin(ctx, store, &choice, options->allow_network_fs, &recovery));
    TRY_GOTO(ctx, result, publish_base(ctx, store));
    result = tsr_store_sweep(ctx, store);
    if (result.code)
        tsr_log(ctx, TSR_LOG_WARNING, "unfinished saves stay for now: %s", ctx->error.text);
    *out_store = store;
    *out_recovery = recovery;
    return TSR_SUCCESS;
done:
    tsr_store_close(ctx, store);
    return tsr_error_prefix(ctx, result, "state directory '%s'", options->directory);
}

void tsr_store_close(tsr_ctx *ctx, tsr_store *store) {
    const tsr_io *io = tsr_ctx_io(ctx);
    if (!store) return;
    if (store->thread_started) {
        pthread_mutex_lock(&store->mutex);
        store->quit = true; /* obeyed when no save is under way */
        pthread_cond_broadcast(&store->changed);
        pthread_mutex_unlock(&store->mutex);
        pthread_join(store->thread, NULL);
        tsr_store_poll(store);
    }
    const int fds[] = {store->gens, store->root, store->lock};
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0) io->close(io->self, fds[i]);
    pthread_mutex_destroy(&store->mutex);
    pthread_cond_destroy(&store->changed);
    free(store->staging);
    free(store->encoded);
    tsr_reader_destroy(store->reader);
    tsr_arena_finish(&store->arena);
    free(store);
}

/* ---- pruning ---- */

/* Says so before LOCK is made in a directory that is none of ours. */
static tsr_result check_is_store(tsr_ctx *ctx, const char *directory) {
    const tsr_io *io = tsr_ctx_io(ctx);
    tsr_name names[TSR_STORE_SCRATCH_NAMES];
    tsr_listing listing = {.names = names, .capacity = TSR_STORE_SCRATCH_NAMES};
    int root = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (root < 0) FAIL_ERRNO(ctx, TSR_IO, -root, "cannot open it");
    tsr_result result = tsr_disk_list(ctx, root, &listing);
    io->close(io->self, root);
    TRY(ctx, result);
    if (!tsr_listing_highest_epoch(&listing))
        FAIL(ctx, TSR_STATE, "it is not a state directory: it has no EPOCH and no MANIFEST");
    return TSR_SUCCESS;
}

static tsr_result remove_and_report(tsr_ctx *ctx, tsr_store *store, tsr_fsck_report_fn report,
                                    void *user) {
    char line[128];
    unsigned removed = 0, left = 0;
    tsr_listing before = {.arena = &store->arena}, after = before;
    TRY(ctx, tsr_disk_list(ctx, store->root, &before));
    /* As often as it takes where the names do not fit the scratch. */
    for (size_t i = 0; i <= before.count / TSR_STORE_SCRATCH_NAMES; i++)
        TRY(ctx, tsr_store_remove_old(ctx, store));
    TRY(ctx, tsr_disk_list(ctx, store->root, &after));
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
    const tsr_choice choice = {.mode = TSR_RESUME_AUTO};
    tsr_recovery recovery = {0};
    tsr_store *store = NULL;
    tsr_result result;
    TRY(ctx, check_options(ctx, &options));
    TRY_GOTO(ctx, result, check_is_store(ctx, directory));
    TRY_GOTO(ctx, result, allocate(ctx, &options, &store));
    TRY_GOTO(ctx, result, begin(ctx, store, &choice, allow_network_fs, &recovery));
    if (recovery.damaged_count)
        FAIL_GOTO(ctx, result, TSR_STATE,
                  "%u committed records are damaged: nothing was removed; fsck tells more",
                  recovery.damaged_count);
    TRY_GOTO(ctx, result, publish_base(ctx, store));
    TRY_GOTO(ctx, result, remove_and_report(ctx, store, report, user));
done:
    tsr_store_close(ctx, store);
    if (result.code) return tsr_error_prefix(ctx, result, "state directory '%s'", directory);
    return result;
}

/* ---- loading ---- */

/* Once: a second load reads from the disk. */
static void copy_landed(tsr_store *store, void *const *destinations) {
    for (uint32_t i = 0; i < store->recovered.tensor_count; i++) {
        uint64_t size = tensor_bytes(&store->recovered.tensors[i]);
        if (size && destinations[i] != store->landed[i])
            memcpy(destinations[i], store->landed[i], (size_t)size);
    }
    store->landed = NULL;
}

tsr_result tsr_store_load(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                          size_t tensor_count) {
    tsr_arena arena = {0};
    tsr_result result;
    TSR_ASSERT(store->found);
    void **destinations = TSR_NEW(&arena, void *, tensor_count + 1);
    if (!destinations)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    TRY_GOTO(ctx, result,
             find_destinations(ctx, &store->recovered, tensors, tensor_count, destinations));
    if (store->landed)
        copy_landed(store, destinations);
    else {
        if (store->thread_started) tsr_store_wait(store); /* the reader is its own */
        TRY_GOTO(ctx, result,
                 tsr_read_state(ctx, store->reader, store->gens, &store->recovered, destinations,
                                false));
    }
done:
    tsr_arena_finish(&arena);
    if (result.code) return tsr_error_prefix(ctx, result, "state directory '%s'", store->directory);
    return result;
}

/* ---- read-only use ---- */

typedef struct landing {
    tsr_arena *arena;
    tsr_tensor *tensors; /* of the generation read last */
} landing;

static tsr_result land_in_arena(tsr_ctx *ctx, void *user, const tsr_manifest *manifest,
                                void ***out_destinations) {
    landing *to = user;
    tsr_tensor *tensors = TSR_NEW(to->arena, tsr_tensor, manifest->tensor_count + 1);
    void **destinations = TSR_NEW(to->arena, void *, manifest->tensor_count + 1);
    if (!tensors || !destinations) FAIL(ctx, TSR_MEMORY, "no memory for the tensors");
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const tsr_tensor_row *row = &manifest->tensors[i];
        uint64_t size = tensor_bytes(row);
        destinations[i] = tsr_arena_alloc(to->arena, (size_t)size + 1, 1, 64);
        if (!destinations[i])
            FAIL(ctx, TSR_MEMORY, "no memory for the %" PRIu64 " bytes of tensor '%s'", size,
                 row->name);
        tensors[i] = (tsr_tensor){
            .name = row->name, .dtype = row->dtype, .shape = row->shape, .data = destinations[i]};
    }
    to->tensors = tensors;
    *out_destinations = destinations;
    return TSR_SUCCESS;
}

static tsr_result read_once(tsr_ctx *ctx, tsr_survey *survey, const tsr_choice *choice,
                            tsr_recovery *recovery, tsr_tensor **out_tensors,
                            size_t *out_tensor_count) {
    const landing *to = choice->land_user;
    tsr_manifest manifest;
    size_t index;
    TRY(ctx, tsr_survey_take(ctx, survey));
    TRY(ctx, tsr_survey_choose(ctx, survey, choice, &index, &manifest));
    *recovery = (tsr_recovery){.found = index < survey->candidate_count,
                               .damaged_count = survey->damaged_count,
                               .uncommitted_count = survey->uncommitted_count};
    *out_tensors = NULL;
    *out_tensor_count = 0;
    if (!recovery->found) return TSR_SUCCESS;
    *out_tensors = to->tensors;
    *out_tensor_count = manifest.tensor_count;
    recovery->generation = tsr_manifest_generation(&manifest);
    return TSR_SUCCESS;
}

tsr_result tsr_store_read(tsr_ctx *ctx, const char *directory, const tsr_digest *bundle_hash,
                          tsr_resume_mode mode, uint64_t generation, tsr_arena *arena,
                          tsr_recovery *out_recovery, tsr_tensor **out_tensors,
                          size_t *out_tensor_count) {
    const tsr_io *io = tsr_ctx_io(ctx);
    landing to = {.arena = arena};
    const tsr_choice choice = {.mode = mode,
                               .generation = generation,
                               .bundle_hash = bundle_hash,
                               .land = land_in_arena,
                               .land_user = &to};
    tsr_survey survey = {.root = -1, .gens = -1, .arena = arena, .reader = tsr_reader_create()};
    tsr_result result = TSR_SUCCESS;
    if (!survey.reader) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read a state");
    survey.root = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (survey.root < 0) {
        result = tsr_fail_(ctx, TSR_IO, -survey.root, __FILE__, __LINE__, "cannot open it");
        goto done;
    }
    survey.gens = io->open(io->self, survey.root, "gen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    /* A run that collects while this reads makes good generations vanish: look again before damage
     * is told. */
    tsr_ctx silent = tsr_ctx_fork(ctx);
    silent.log = NULL;
    tsr_ctx *with = &silent;
    for (uint64_t seen = UINT64_MAX;; with = ctx) {
        tsr_survey attempt = {
            .root = survey.root, .gens = survey.gens, .arena = arena, .reader = survey.reader};
        result = read_once(with, &attempt, &choice, out_recovery, out_tensors, out_tensor_count);
        bool damaged = result.code == TSR_STATE || (!result.code && out_recovery->damaged_count);
        if (!damaged || attempt.highest_generation == seen) break;
        seen = attempt.highest_generation;
    }
    if (result.code && with == &silent) result = tsr_error_adopt(ctx, &silent);
done:
    if (survey.gens >= 0) io->close(io->self, survey.gens);
    if (survey.root >= 0) io->close(io->self, survey.root);
    tsr_reader_destroy(survey.reader);
    if (result.code) return tsr_error_prefix(ctx, result, "state directory '%s'", directory);
    return result;
}
