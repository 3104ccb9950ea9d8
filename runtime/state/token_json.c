/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/state/token_json.h"

#include "runtime/base/io/identity_json.h"

#include <inttypes.h>

static void put_count(tsr_buffer *buffer, const char *key, uint64_t value) {
    tsr_buffer_printf(buffer, "\"%s\":%" PRIu64 ",", key, value);
}

static void put_text(tsr_buffer *buffer, const char *key, const char *text) {
    tsr_buffer_printf(buffer, "\"%s\":", key);
    tsr_buffer_json_string(buffer, text);
    tsr_buffer_text(buffer, ",");
}

static void put_hash(tsr_buffer *buffer, const char *key, const tsr_digest *digest) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(digest, hex);
    tsr_buffer_printf(buffer, "\"%s\":\"%s\"", key, hex);
}

/* Omitted if nothing is known about the data. */
static void put_data(tsr_buffer *buffer, const tsr_position *position) {
    if (!position->rows) return;
    put_count(buffer, "epochBase", position->epoch_base);
    put_count(buffer, "epochBaseSample", position->epoch_base_sample);
    put_count(buffer, "rows", position->rows);
    put_hash(buffer, "data", &position->data);
    tsr_buffer_text(buffer, ",");
}

/* Omitted if the run keeps no best generation. */
static void put_best(tsr_buffer *buffer, const tsr_best *best) {
    if (!best->metric[0]) return;
    tsr_buffer_text(buffer, "\"best\":{");
    put_text(buffer, "metric", best->metric);
    put_count(buffer, "evaluatedStep", best->evaluated_step);
    tsr_buffer_printf(buffer, "\"withoutGain\":%" PRIu64, best->without_gain);
    if (best->generation) {
        tsr_buffer_text(buffer, ",");
        put_count(buffer, "generation", best->generation);
        put_count(buffer, "epoch", best->epoch);
        put_count(buffer, "step", best->step);
        tsr_buffer_printf(buffer, "\"value\":%.17g,", best->value);
        put_hash(buffer, "manifest", &best->manifest_hash);
    }
    tsr_buffer_text(buffer, "},");
}

void tsr_token_json(tsr_buffer *buffer, const tsr_manifest *manifest) {
    const tsr_token *token = &manifest->token;
    const tsr_position *position = &token->position;
    tsr_buffer_text(buffer, "{");
    put_count(buffer, "generation", token->generation);
    put_count(buffer, "epoch", token->epoch);
    put_count(buffer, "seed", position->seed);
    put_count(buffer, "step", position->step);
    put_count(buffer, "sample", position->sample);
    put_count(buffer, "virtualRanks", position->virtual_ranks);
    put_count(buffer, "shuffleVersion", position->shuffle_version);
    put_data(buffer, position);
    put_text(buffer, "region", token->region);
    put_text(buffer, "numerics", token->numerics);
    put_text(buffer, "topology", token->topology);
    if (tsr_identity_is_known(&token->identity)) {
        tsr_identity_write_json(buffer, &token->identity);
        tsr_identity_write_set(buffer, &token->identity);
        tsr_buffer_text(buffer, ",");
    }
    put_best(buffer, &position->best);
    put_hash(buffer, "bundle", &token->bundle_hash);
    tsr_buffer_text(buffer, ",");
    put_hash(buffer, "state", &token->state_hash);
    tsr_buffer_text(buffer, ",");
    put_hash(buffer, "previous", &token->previous);
    tsr_buffer_text(buffer, ",");
    put_hash(buffer, "hash", &manifest->token_hash);
    tsr_buffer_text(buffer, "}");
}
