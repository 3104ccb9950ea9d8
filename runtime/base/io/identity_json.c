/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/io/identity_json.h"

#include <cjson/cJSON.h>
#include <string.h>

void tsr_identity_write_hyperparameters(tsr_buffer *out, const tsr_identity *identity) {
    tsr_buffer_text(out, "{");
    for (size_t i = 0; i < identity->hyperparameter_count; i++) {
        if (i) tsr_buffer_text(out, ",");
        tsr_buffer_json_string(out, identity->hyperparameters[i].name);
        tsr_buffer_text(out, ":");
        tsr_buffer_json_string(out, identity->hyperparameters[i].value);
    }
    tsr_buffer_text(out, "}");
}

void tsr_identity_write_set(tsr_buffer *out, const tsr_identity *identity) {
    bool first = true;
    for (size_t i = 0; i < identity->hyperparameter_count; i++) {
        if (!identity->hyperparameters[i].is_set) continue;
        tsr_buffer_text(out, first ? ",\"set\":[" : ",");
        tsr_buffer_json_string(out, identity->hyperparameters[i].name);
        first = false;
    }
    if (!first) tsr_buffer_text(out, "]");
}

void tsr_identity_write_json(tsr_buffer *out, const tsr_identity *identity) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&identity->program, hex);
    tsr_buffer_printf(out, "\"program\":\"%s\",\"hyperparameters\":", hex);
    tsr_identity_write_hyperparameters(out, identity);
}

tsr_result tsr_identity_read_json(tsr_ctx *ctx, const struct cJSON *object,
                                  const tsr_json_options *options, tsr_arena *arena,
                                  tsr_identity *out_identity) {
    const cJSON *values = NULL, *item = NULL;
    const char *hex = NULL;
    tsr_identity identity = {0};
    TRY(ctx, tsr_json_get_string(ctx, object, "program", options, &hex));
    if (!tsr_digest_parse(hex, strlen(hex), &identity.program) || !tsr_identity_is_known(&identity))
        FAIL(ctx, options->code,
             "%s: program: expected a digest of 64 hexadecimal digits, got another",
             options->subject);
    TRY(ctx, tsr_json_get_object(ctx, object, "hyperparameters", options, &values));
    int count = cJSON_GetArraySize(values);
    if (count > TSR_HYPERPARAMETERS_MAX)
        FAIL(ctx, options->code, "%s: hyperparameters: expected at most %d, got %d",
             options->subject, TSR_HYPERPARAMETERS_MAX, count);
    tsr_hyperparameter *list = TSR_NEW(arena, tsr_hyperparameter, (size_t)count + 1);
    if (!list) FAIL(ctx, TSR_MEMORY, "%s: no memory for hyper-parameters", options->subject);
    cJSON_ArrayForEach(item, values) {
        if (!cJSON_IsString(item))
            FAIL(ctx, options->code, "%s: hyperparameters: expected strings, got another value",
                 options->subject);
        list[identity.hyperparameter_count++] =
            (tsr_hyperparameter){item->string, item->valuestring, false};
    }
    identity.hyperparameters = list;
    const char *wrong = tsr_identity_check(&identity);
    if (wrong) FAIL(ctx, options->code, "%s: %s", options->subject, wrong);
    return tsr_identity_copy(ctx, &identity, arena, out_identity);
}

tsr_result tsr_identity_read_set(tsr_ctx *ctx, const struct cJSON *object,
                                 const tsr_json_options *options, tsr_arena *arena,
                                 tsr_identity *identity) {
    const cJSON *names = NULL, *item = NULL;
    size_t count = 0;
    if (!tsr_json_find(object, "set")) return TSR_SUCCESS;
    TRY(ctx, tsr_json_get_array(ctx, object, "set", options, &names, &count));
    tsr_hyperparameter *list = TSR_NEW(arena, tsr_hyperparameter, TSR_HYPERPARAMETERS_MAX);
    if (!list) FAIL(ctx, TSR_MEMORY, "%s: no memory for hyper-parameters", options->subject);
    for (size_t i = 0; i < identity->hyperparameter_count; i++)
        list[i] = identity->hyperparameters[i];
    identity->hyperparameters = list;
    cJSON_ArrayForEach(item, names) {
        const char *name = cJSON_IsString(item) ? item->valuestring : "";
        const tsr_hyperparameter *found = tsr_identity_find(identity, name);
        if (!found)
            FAIL(ctx, options->code, "%s: set: expected names of hyper-parameters, got '%.100s'",
                 options->subject, name);
        list[found - list].is_set = true;
    }
    return TSR_SUCCESS;
}
