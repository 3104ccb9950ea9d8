/* SPDX-License-Identifier: Apache-2.0 */
#include "loader/position.h"

#include "runtime/base/io/json.h"
#include "runtime/base/plural.h"
#include "runtime/transport/collective.h"

#include <inttypes.h>
#include <string.h>

enum { POSITION_BYTES_MAX = 4096 };

/* The members, in the order in which they are written. */
typedef struct member {
    const char *key;
    uint64_t *value;
} member;
enum { MEMBERS = 8, REQUIRED = 5 }; /* the others are omitted if nothing is known about the data */

static void list_members(tsr_position *position, member members[static MEMBERS]) {
    const member all[MEMBERS] = {{"seed", &position->seed},
                                 {"step", &position->step},
                                 {"sample", &position->sample},
                                 {"virtualRanks", &position->virtual_ranks},
                                 {"shuffleVersion", &position->shuffle_version},
                                 {"epochBase", &position->epoch_base},
                                 {"epochBaseSample", &position->epoch_base_sample},
                                 {"rows", &position->rows}};
    memcpy(members, all, sizeof all);
}

tsr_result tsr_position_encode(tsr_ctx *ctx, const tsr_position *position, tsr_arena *arena,
                               char **out_json, size_t *out_size_bytes) {
    tsr_position copy = *position;
    member members[MEMBERS];
    const char *json = "";
    size_t count = position->rows ? MEMBERS : REQUIRED;
    char hex[TSR_DIGEST_HEX + 1];
    list_members(&copy, members);
    for (size_t i = 0; i < count && json; i++)
        json = tsr_arena_printf(arena, "%s%c\"%s\":%" PRIu64, json, i ? ',' : '{', members[i].key,
                                *members[i].value);
    tsr_digest_format(&position->data, hex);
    if (json && position->rows) json = tsr_arena_printf(arena, "%s,\"data\":\"%s\"", json, hex);
    *out_json = json ? tsr_arena_printf(arena, "%s}", json) : NULL;
    if (!*out_json) FAIL(ctx, TSR_MEMORY, "no memory for a position");
    *out_size_bytes = strlen(*out_json);
    return TSR_SUCCESS;
}

static tsr_result decode(tsr_ctx *ctx, const char *json, size_t size, tsr_position *out) {
    const tsr_json_options options = {.subject = "position of the bundle", .code = TSR_CORRUPT};
    struct cJSON *root = NULL;
    member members[MEMBERS];
    tsr_result result = TSR_SUCCESS;
    list_members(out, members);
    TRY(ctx, tsr_json_parse(ctx, json, size, &options, &root));
    size_t count = tsr_json_find(root, "rows") ? MEMBERS : REQUIRED;
    for (size_t i = 0; i < count; i++)
        TRY_GOTO(ctx, result,
                 tsr_json_get_u64(ctx, root, members[i].key, &options, members[i].value));
    if (count == MEMBERS) {
        const char *hex = NULL;
        TRY_GOTO(ctx, result, tsr_json_get_string(ctx, root, "data", &options, &hex));
        if (!tsr_digest_parse(hex, strlen(hex), &out->data) || !out->rows ||
            out->epoch_base_sample > out->sample)
            FAIL_GOTO(ctx, result, TSR_CORRUPT,
                      "position of the bundle: data '%s' of %" PRIu64
                      " row%s, whose epoch begins at sample %" PRIu64
                      ", does not belong to sample %" PRIu64,
                      hex, out->rows, TSR_PLURAL(out->rows), out->epoch_base_sample, out->sample);
    }
    if (out->seed > UINT32_MAX)
        FAIL_GOTO(ctx, result, TSR_CORRUPT,
                  "position of the bundle: the seed is %" PRIu64 "; expected at most %u", out->seed,
                  UINT32_MAX);
done:
    tsr_json_destroy(root);
    return result;
}

tsr_result tsr_position_read(tsr_ctx *ctx, tsr_bundle *bundle, size_t target, bool *out_found,
                             tsr_position *out_position) {
    tsr_bundle_layer layer;
    tsr_position position = {0};
    tsr_arena arena = {0};
    tsr_result result = TSR_SUCCESS;
    void *bytes = NULL;
    size_t size = 0;
    *out_found = tsr_bundle_find_layer(bundle, target, TSR_MEDIA_POSITION, &layer);
    if (!*out_found) return TSR_SUCCESS;
    if (layer.size_bytes > POSITION_BYTES_MAX)
        FAIL(ctx, TSR_CORRUPT,
             "position of the bundle has %" PRIu64 " byte%s; at most %d are accepted",
             layer.size_bytes, TSR_PLURAL(layer.size_bytes), POSITION_BYTES_MAX);
    TRY_GOTO(ctx, result, tsr_bundle_read_layer(ctx, bundle, &layer, &arena, &bytes, &size));
    TRY_GOTO(ctx, result, decode(ctx, bytes, size, &position));
    *out_position = position;
done:
    tsr_arena_finish(&arena);
    return result;
}

tsr_result tsr_position_agree(tsr_ctx *ctx, tsr_transport *transport,
                              const tsr_position *position) {
    tsr_position copy = *position;
    member members[MEMBERS];
    uint64_t numbers[MEMBERS];
    list_members(&copy, members);
    for (size_t i = 0; i < MEMBERS; i++) numbers[i] = *members[i].value;
    return tsr_agree(ctx, transport, "positions", numbers, sizeof numbers);
}
