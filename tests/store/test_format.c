/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes that docs/state-store.md specifies, written out by hand here, and decoders that trust
 * no input.
 */
#include "runtime/base/array.h"
#include "runtime/commit/directory.h"
#include "runtime/state/format.h"
#include "tests/store/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sample {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_manifest manifest;
    uint8_t *bytes;
    size_t size;
} sample;

static sample make_of(tsr_position position, tsr_identity identity) {
    sample s = {.size = 0};
    model m;
    const tsr_tensor *sorted[MODEL_TENSORS];
    model_init(&m);
    model_fill(&m, 5);
    tsr_result result =
        tsr_manifest_plan(&s.ctx, &s.arena, m.tensors, MODEL_TENSORS,
                          &(tsr_division){TSR_SEGMENT_BYTES_MAX, 1}, sorted, &s.manifest);
    cr_assert_eq(result.code, TSR_OK);
    tsr_token *token = &s.manifest.token;
    token->generation = 7;
    token->epoch = 2;
    token->position = position;
    token->bundle_hash = model_bundle();
    token->identity = identity;
    token->region = "train";
    token->numerics = "portable-fma";
    token->topology = "ranks=1";
    s.manifest.previous = (tsr_link){6, 1, tsr_hash("p", 1)};
    const tsr_chunk_row *last = &s.manifest.chunks[s.manifest.chunk_count - 1];
    for (uint32_t i = 0, k = 0; i < MODEL_TENSORS; i++)
        if (s.manifest.tensors[i].chunk_count) {
            tsr_chunk_row *chunk = &s.manifest.chunks[k++];
            chunk->digest = tsr_hash_tree(sorted[i]->data, chunk->size_bytes);
        }
    cr_assert_eq(last->offset + last->size_bytes, s.manifest.segment_sizes[0]);
    tsr_digest hash = tsr_state_hash(m.tensors, MODEL_TENSORS);
    s.size = tsr_manifest_size(&s.manifest);
    s.bytes = malloc(s.size);
    tsr_manifest_encode(&s.manifest, s.bytes);
    cr_assert(tsr_digest_equal(&hash, &token->state_hash));
    return s;
}
static sample make(void) { return make_of(model_position(5), (tsr_identity){.program = {{0}}}); }
static tsr_position position_with_data(void) {
    tsr_position position = model_position(5);
    position.epoch_base = 3;
    position.epoch_base_sample = 300;
    position.rows = 77;
    position.data = tsr_hash("data", 4);
    return position;
}
/* Version 2. */
static sample make_with_data(void) {
    return make_of(position_with_data(), (tsr_identity){.program = {{0}}});
}
/* Version 3. */
static const tsr_hyperparameter hyperparameters[] = {{"eps", "1e-08", false},
                                                     {"lr", "0.01", false}};
static sample make_with_program(void) {
    return make_of(position_with_data(),
                   (tsr_identity){tsr_hash("program", 7), 2, hyperparameters});
}
/* Version 4. */
static tsr_position position_with_best(void) {
    tsr_position position = position_with_data();
    position.best = (tsr_best){.metric = "min:loss",
                               .evaluated_step = 5,
                               .without_gain = 2,
                               .generation = 4,
                               .epoch = 1,
                               .manifest_hash = tsr_hash("best", 4),
                               .step = 3,
                               .value = 0.75};
    return position;
}
static sample make_with_best(void) {
    return make_of(position_with_best(),
                   (tsr_identity){tsr_hash("program", 7), 2, hyperparameters});
}
/* Version 5: a run set lr; with a best generation, or without. */
static sample make_with_set(bool has_best) {
    static const tsr_hyperparameter list[] = {{"eps", "1e-08", false}, {"lr", "0.02", true}};
    return make_of(has_best ? position_with_best() : position_with_data(),
                   (tsr_identity){tsr_hash("program", 7), 2, list});
}
static void finish(sample *s) {
    tsr_arena_finish(&s->arena);
    free(s->bytes);
}
static tsr_code decode(sample *s, const uint8_t *bytes, size_t size, tsr_manifest *out) {
    tsr_arena arena = {0};
    tsr_manifest ignored;
    tsr_result result = tsr_manifest_decode(&s->ctx, "MANIFEST.7.2", bytes, size,
                                            out ? &s->arena : &arena, out ? out : &ignored);
    tsr_arena_finish(&arena);
    return result.code;
}
static uint64_t number(const uint8_t *at, unsigned width) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}
/* Updates the token hash and the manifest hash after a change. */
static void reseal(uint8_t *bytes, size_t size, size_t token_size) {
    tsr_digest token = tsr_hash(bytes, token_size - TSR_DIGEST_BYTES);
    memcpy(bytes + token_size - TSR_DIGEST_BYTES, token.bytes, TSR_DIGEST_BYTES);
    tsr_digest own = tsr_hash(bytes, size - TSR_DIGEST_BYTES);
    memcpy(bytes + size - TSR_DIGEST_BYTES, own.bytes, TSR_DIGEST_BYTES);
}

Test(store_format, round_trip) {
    sample s = make();
    tsr_manifest back;
    cr_assert_eq(decode(&s, s.bytes, s.size, &back), TSR_OK, "%s", s.ctx.error.text);
    cr_assert_eq(back.token.generation, 7);
    cr_assert_eq(back.token.epoch, 2);
    cr_assert_eq(back.token.position.sample, 320);
    cr_assert_str_eq(back.token.region, "train");
    cr_assert_str_eq(back.token.numerics, "portable-fma");
    cr_assert_str_eq(back.token.topology, "ranks=1");
    cr_assert_eq(back.previous.generation, 6);
    cr_assert_eq(back.tensor_count, 4);
    cr_assert_str_eq(back.tensors[3].name, "w.moment");
    cr_assert(tsr_digest_equal(&back.hash, &s.manifest.hash));
    cr_assert(tsr_digest_equal(&back.token_hash, &s.manifest.token_hash));
    finish(&s);
}

/* The fields that version 2 adds are between the numbers and the hashes of version 1. */
Test(store_format, version_2_names_the_data) {
    sample one = make(), two = make_with_data();
    tsr_manifest back;
    tsr_digest data = tsr_hash("data", 4);
    cr_assert_eq(two.size, one.size + 56);
    cr_assert_eq(number(two.bytes + 8, 4), 2);
    cr_assert_eq(memcmp(one.bytes + 16, two.bytes + 16, 56), 0);
    cr_assert_eq(number(two.bytes + 72, 8), 3);
    cr_assert_eq(number(two.bytes + 80, 8), 300);
    cr_assert_eq(number(two.bytes + 88, 8), 77);
    cr_assert_eq(memcmp(two.bytes + 96, data.bytes, 32), 0);
    cr_assert_eq(memcmp(one.bytes + 72, two.bytes + 128, 128), 0, "as in version 1 from here on");
    cr_assert_eq(decode(&two, two.bytes, two.size, &back), TSR_OK, "%s", two.ctx.error.text);
    cr_assert_eq(back.token.position.epoch_base, 3);
    cr_assert_eq(back.token.position.epoch_base_sample, 300);
    cr_assert_eq(back.token.position.rows, 77);
    cr_assert(tsr_digest_equal(&back.token.position.data, &data));
    finish(&one);
    finish(&two);
}

/* Each token has one form: version 2 must name data, and its epoch must not begin after its
 * sample. */
Test(store_format, version_2_says_something_that_can_be) {
    sample s = make_with_data();
    const size_t token_size = 176 + 56 + 5 + 12 + 7 + 32;
    s.bytes[81] = 2; /* 300 becomes 556; the sample is 320 */
    reseal(s.bytes, s.size, token_size);
    cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_STATE);
    memset(s.bytes + 72, 0, 56);
    reseal(s.bytes, s.size, token_size);
    cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_STATE);
    cr_assert(strstr(s.ctx.error.text, "out of range"), "%s", s.ctx.error.text);
    finish(&s);
}

/* The program digest is between the data and the bundle; the list follows the texts. */
Test(store_format, version_3_names_the_program) {
    sample two = make_with_data(), three = make_with_program();
    static const char list[] = "\3\5eps1e-08\2\4lr0.01";
    tsr_digest program = tsr_hash("program", 7);
    tsr_manifest back;
    cr_assert_eq(three.size, two.size + 32 + 2 + sizeof list - 1);
    cr_assert_eq(number(three.bytes + 8, 4), 3);
    cr_assert_eq(memcmp(two.bytes + 16, three.bytes + 16, 112), 0, "as in version 2 up to here");
    cr_assert_eq(memcmp(three.bytes + 128, program.bytes, 32), 0);
    cr_assert_eq(memcmp(two.bytes + 128, three.bytes + 160, 104), 0, "hashes and lengths as there");
    cr_assert_eq(number(three.bytes + 264, 2), sizeof list - 1);
    cr_assert_eq(memcmp(three.bytes + 266, "trainportable-fmaranks=1", 24), 0);
    cr_assert_eq(memcmp(three.bytes + 290, list, sizeof list - 1), 0);
    cr_assert_eq(decode(&three, three.bytes, three.size, &back), TSR_OK, "%s",
                 three.ctx.error.text);
    cr_assert(tsr_digest_equal(&back.token.identity.program, &program));
    cr_assert_eq(back.token.identity.hyperparameter_count, 2);
    cr_assert_str_eq(back.token.identity.hyperparameters[0].name, "eps");
    cr_assert_str_eq(back.token.identity.hyperparameters[1].value, "0.01");
    finish(&two);
    finish(&three);
}

/* A state of a program without optimizers and without known data. */
Test(store_format, version_3_without_data_and_without_hyperparameters) {
    sample s = make_of(model_position(5), (tsr_identity){.program = tsr_hash("program", 7)});
    tsr_manifest back;
    cr_assert_eq(decode(&s, s.bytes, s.size, &back), TSR_OK, "%s", s.ctx.error.text);
    cr_assert_eq(back.token.position.rows, 0);
    cr_assert_eq(back.token.identity.hyperparameter_count, 0);
    finish(&s);
}

static void refuse_with(size_t at, uint8_t byte, const char *part) {
    sample s = make_with_program();
    s.bytes[at] = byte;
    reseal(s.bytes, s.size, (size_t)number(s.bytes + 12, 4));
    cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_STATE, "byte %zu", at);
    cr_assert(strstr(s.ctx.error.text, part), "byte %zu: %s", at, s.ctx.error.text);
    finish(&s);
}
Test(store_format, version_3_lists_what_can_be) {
    refuse_with(264, 7, "the size of its token differs");     /* the list is shorter */
    refuse_with(290, 200, "the size of its token differs");   /* a name beyond its end */
    refuse_with(292, 'z', "not in the order of their names"); /* "zps" before "lr" */
    refuse_with(292, '\n', "a name of its hyper-parameters"); /* no text */
    refuse_with(292, 0xff, "a name of its hyper-parameters"); /* no UTF-8 */
    refuse_with(295, ' ', "a value of its hyper-parameters"); /* a space */
    sample s = make_with_program();
    memset(s.bytes + 128, 0, 32); /* each token has one form: version 3 has a program */
    reseal(s.bytes, s.size, (size_t)number(s.bytes + 12, 4));
    cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_STATE);
    cr_assert(strstr(s.ctx.error.text, "no program digest"), "%s", s.ctx.error.text);
    finish(&s);
}

/* The offsets are those of the document. */
Test(store_format, layout_is_the_documented_one) {
    sample s = make();
    const size_t token_size = 176 + 5 + 12 + 7 + 32;
    const uint8_t *map = s.bytes + token_size;
    cr_assert_eq(memcmp(s.bytes, "TSRTOKEN", 8), 0);
    cr_assert_eq(number(s.bytes + 8, 4), 1);
    cr_assert_eq(number(s.bytes + 12, 4), token_size);
    cr_assert_eq(number(s.bytes + 16, 8), 7);
    cr_assert_eq(number(s.bytes + 24, 8), 2);
    cr_assert_eq(number(s.bytes + 32, 8), 42);
    cr_assert_eq(number(s.bytes + 40, 8), 5);
    cr_assert_eq(number(s.bytes + 48, 8), 320);
    cr_assert_eq(number(s.bytes + 56, 8), 1);
    cr_assert_eq(number(s.bytes + 64, 8), 1);
    cr_assert_eq(number(s.bytes + 168, 2), 5);
    cr_assert_eq(memcmp(s.bytes + 176, "trainportable-fmaranks=1", 24), 0);
    cr_assert_eq(memcmp(map, "TSRSTATE", 8), 0);
    cr_assert_eq(number(map + 8, 8), 6);
    cr_assert_eq(number(map + 16, 8), 1);
    cr_assert_eq(number(map + 56, 4), 1);
    cr_assert_eq(number(map + 60, 4), 4);
    cr_assert_eq(number(map + 64, 4), 3);
    cr_assert_eq(number(map + 72, 8), 5600 + 8 + 40);
    const uint8_t *tensor = map + 80; /* "empty": 0x3xf32 */
    cr_assert_eq(number(tensor, 2), 5);
    cr_assert_eq(number(tensor + 2, 2), TSR_DTYPE_F32);
    cr_assert_eq(number(tensor + 4, 4), 2);
    cr_assert_eq(number(tensor + 8, 4), 0);
    cr_assert_eq(number(tensor + 20, 8), 3);
    tsr_digest nothing = tsr_hash(NULL, 0);
    cr_assert_eq(memcmp(tensor + 28, nothing.bytes, 32), 0);
    cr_assert_eq(memcmp(tensor + 60, "empty", 5), 0);
    const uint8_t *chunk = s.bytes + s.size - 32 - 3 * 64; /* chunks of "scale" */
    cr_assert_eq(number(chunk + 8, 8), 1);
    cr_assert_eq(number(chunk + 64 + 16, 8), 8, "'w' follows 'scale'");
    cr_assert_eq(number(chunk + 64 + 28, 4), 5600);
    finish(&s);
}

/* Computes the state hash by hand. */
Test(store_format, state_hash_is_the_documented_one) {
    uint8_t text[200] = "tessera.state.1";
    float b[2] = {1.0f, -2.0f};
    int32_t a = 7;
    tsr_tensor tensors[] = {{"b", TSR_DTYPE_F32, {2, {1, 2}}, b},
                            {"a", TSR_DTYPE_I32, {0, {0}}, &a}};
    size_t at = 16;
    text[at] = 2, at += 8;
    text[at] = 1, at += 4; /* name */
    text[at++] = 'a';
    text[at] = TSR_DTYPE_I32, at += 4;
    at += 4; /* rank 0 */
    tsr_digest digest = tsr_hash_tree(&a, sizeof a);
    memcpy(text + at, digest.bytes, 32), at += 32;
    text[at] = 1, at += 4;
    text[at++] = 'b';
    text[at] = TSR_DTYPE_F32, at += 4;
    text[at] = 2, at += 4;
    text[at] = 1, at += 8;
    text[at] = 2, at += 8;
    digest = tsr_hash_tree(b, sizeof b);
    memcpy(text + at, digest.bytes, 32), at += 32;
    tsr_digest expected = tsr_hash(text, at), found = tsr_state_hash(tensors, 2);
    cr_assert(tsr_digest_equal(&expected, &found));
}

/* The best generation is between the program and the bundle; the metric follows the list. */
Test(store_format, version_4_names_the_best_generation) {
    sample three = make_with_program(), four = make_with_best();
    tsr_digest best = tsr_hash("best", 4);
    tsr_manifest back;
    cr_assert_eq(four.size, three.size + 80 + 2 + 8);
    cr_assert_eq(number(four.bytes + 8, 4), 4);
    cr_assert_eq(memcmp(three.bytes + 16, four.bytes + 16, 144), 0, "as in version 3 up to here");
    const uint64_t numbers[] = {5, 2, 4, 1, 3, UINT64_C(0x3fe8000000000000)};
    for (size_t i = 0; i < 6; i++)
        cr_assert_eq(number(four.bytes + 160 + 8 * i, 8), numbers[i], "number %zu", i);
    cr_assert_eq(memcmp(four.bytes + 208, best.bytes, 32), 0);
    cr_assert_eq(memcmp(three.bytes + 160, four.bytes + 240, 106), 0, "hashes and lengths");
    cr_assert_eq(number(four.bytes + 346, 2), 8);
    cr_assert_eq(memcmp(four.bytes + 348, three.bytes + 266, 24 + 18), 0, "texts and list");
    cr_assert_eq(memcmp(four.bytes + 348 + 24 + 18, "min:loss", 8), 0);
    cr_assert_eq(decode(&four, four.bytes, four.size, &back), TSR_OK, "%s", four.ctx.error.text);
    cr_assert_eq(memcmp(&back.token.position.best, &four.manifest.token.position.best,
                        sizeof back.token.position.best),
                 0);
    finish(&three);
    finish(&four);
}

/* What the writer cannot have meant is refused, also with right hashes. */
Test(store_format, version_4_names_a_generation_that_can_be) {
    static const struct {
        const char *what;
        size_t offset; /* in tsr_best */
        uint64_t value;
        bool good;
    } rows[] = {
#define FIELD(name) offsetof(tsr_best, name)
        {"as it is", FIELD(epoch), 1, true},
        {"evaluated later", FIELD(evaluated_step), 6, false},
        {"best after its evaluation", FIELD(step), 6, false},
        {"of a later generation", FIELD(generation), 8, false},
        {"of a later epoch", FIELD(epoch), 3, false},
        {"of no epoch", FIELD(epoch), 0, false},
        {"no generation, and yet a link", FIELD(generation), 0, false},
        {"infinite", FIELD(value), UINT64_C(0x7ff0000000000000), false},
        {"nan", FIELD(value), UINT64_C(0x7ff8000000000000), false},
        {"no link", FIELD(manifest_hash), 0, false},
        {"itself, and yet a link", FIELD(generation), 7, false},
        {"a name without min or max", FIELD(metric), UINT64_C(0x6d696e3d6c6f7373), false},
#undef FIELD
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_position position = position_with_best();
        memcpy((char *)&position.best + rows[i].offset, &rows[i].value, 8);
        if (rows[i].offset == offsetof(tsr_best, manifest_hash))
            position.best.manifest_hash = (tsr_digest){{0}};
        if (rows[i].value == 7) position.best.epoch = 2;
        sample s = make_of(position, (tsr_identity){.program = {{0}}});
        cr_assert_eq(decode(&s, s.bytes, s.size, NULL), rows[i].good ? TSR_OK : TSR_STATE, "%s: %s",
                     rows[i].what, s.ctx.error.text);
        finish(&s);
    }
}

/* The marks are between the best generation and the bundle. */
Test(store_format, version_5_marks_values_that_a_run_set) {
    sample four = make_with_best(), five = make_with_set(true), without = make_with_set(false);
    tsr_manifest back;
    cr_assert_eq(five.size, four.size + 8);
    cr_assert_eq(number(five.bytes + 8, 4), 5);
    cr_assert_eq(memcmp(four.bytes + 16, five.bytes + 16, 224), 0, "as in version 4 up to here");
    cr_assert_eq(number(five.bytes + 240, 8), 2);
    cr_assert_eq(memcmp(four.bytes + 240, five.bytes + 248, 106), 0, "hashes and lengths");
    cr_assert_eq(decode(&five, five.bytes, five.size, &back), TSR_OK, "%s", five.ctx.error.text);
    cr_assert_eq(without.size, five.size - 8);
    cr_assert_eq(number(without.bytes + 8, 4), 5);
    for (size_t i = 160; i < 240; i++) cr_assert_eq(without.bytes[i], 0, "no best generation");
    cr_assert_eq(decode(&without, without.bytes, without.size, NULL), TSR_OK, "%s",
                 without.ctx.error.text);
    finish(&four);
    finish(&five);
    finish(&without);
}

/* With right hashes: no mark, one without a hyper-parameter, and numbers of a best generation that
 * has no metric. */
Test(store_format, version_5_marks_what_is_there) {
    static const struct {
        size_t offset;
        uint8_t value;
        const char *text;
    } rows[] = {{240, 0, "out of range"},
                {240, 4, "a value that was set has no hyper-parameter"},
                {247, 128, "a value that was set has no hyper-parameter"},
                {160, 1, "a number of its best generation is out of range"},
                {168, 1, "a number of its best generation is out of range"},
                {176, 1, "a number of its best generation is out of range"}};
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        sample s = make_with_set(false);
        s.bytes[rows[i].offset] = rows[i].value;
        reseal(s.bytes, s.size, (size_t)number(s.bytes + 12, 4));
        cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_STATE, "row %zu", i);
        cr_assert(strstr(s.ctx.error.text, rows[i].text), "row %zu: %s", i, s.ctx.error.text);
        finish(&s);
    }
}

static void try_every_bit_and_length(sample s) {
    for (size_t i = 0; i < 8 * s.size; i++) {
        s.bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
        cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_STATE, "bit %zu", i);
        s.bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t size = 0; size < s.size; size++) {
        uint8_t *copy = malloc(size + 1); /* a sanitizer detects reads past its end */
        memcpy(copy, s.bytes, size);
        cr_assert_eq(decode(&s, copy, size, NULL), TSR_STATE, "length %zu", size);
        free(copy);
    }
    finish(&s);
}
Test(store_format, every_bit_and_every_length) {
    try_every_bit_and_length(make());
    try_every_bit_and_length(make_with_data());
    try_every_bit_and_length(make_with_program());
    try_every_bit_and_length(make_with_best());
    try_every_bit_and_length(make_with_set(true));
    try_every_bit_and_length(make_with_set(false));
}

/* A changed bit is accepted despite corrected hashes only in fields that the writer chooses
 * freely. */
static void try_every_bit_with_right_hashes(sample s, size_t data_bytes, size_t fixed_end) {
    const size_t token_size = (size_t)number(s.bytes + 12, 4);
    unsigned accepted = 0;
    for (size_t i = 0; i < 8 * s.size; i++) {
        size_t byte = i / 8;
        uint8_t *copy = malloc(s.size);
        memcpy(copy, s.bytes, s.size);
        copy[byte] ^= (uint8_t)(1u << (i % 8));
        reseal(copy, s.size, token_size);
        bool changed = memcmp(copy, s.bytes, s.size) != 0;
        bool is_choice = (byte >= 16 && byte < data_bytes + 104) || /* numbers, data, bundle */
                         (byte >= data_bytes + 136 && byte < data_bytes + 168) || /* previous */
                         (byte >= fixed_end && byte < token_size - 32) ||         /* texts */
                         (byte >= token_size + 8 && byte < token_size + 56);      /* previous */
        tsr_code code = decode(&s, copy, s.size, NULL);
        uint64_t version = number(copy + 8, 4);
        if (changed && byte >= 8 && byte < 12)
            cr_assert_eq(code, version >= 1 && version <= 5 ? TSR_STATE : TSR_VERSION, "bit %zu",
                         i);
        else if (changed && !is_choice)
            cr_assert_eq(code, TSR_STATE, "bit %zu of byte %zu", i % 8, byte);
        else
            cr_assert(code == TSR_OK || code == TSR_STATE);
        accepted += code == TSR_OK;
        free(copy);
    }
    cr_assert_gt(accepted, 500);
    finish(&s);
}
Test(store_format, every_bit_with_right_hashes) {
    try_every_bit_with_right_hashes(make(), 0, 176);
    try_every_bit_with_right_hashes(make_with_data(), 56, 176 + 56);
    try_every_bit_with_right_hashes(make_with_program(), 88, 178 + 88);
}

Test(store_format, hostile_counts) {
    sample s = make();
    const size_t token_size = (size_t)number(s.bytes + 12, 4);
    for (size_t field = 56; field < 72; field += 4) {
        memset(s.bytes + token_size + field, 0xff, 4);
        reseal(s.bytes, s.size, token_size);
        cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_STATE);
        sample fresh = make();
        memcpy(s.bytes, fresh.bytes, s.size);
        finish(&fresh);
    }
    finish(&s);
}

Test(store_format, newer_version_is_told) {
    sample s = make();
    s.bytes[8] = 6;
    reseal(s.bytes, s.size, (size_t)number(s.bytes + 12, 4));
    cr_assert_eq(decode(&s, s.bytes, s.size, NULL), TSR_VERSION);
    cr_assert(strstr(s.ctx.error.text, "has format version 6; this Tessera reads versions 1 to 5"));
    finish(&s);
}

Test(store_format, base_records) {
    uint8_t bytes[TSR_BASE_BYTES];
    tsr_ctx ctx = {.io = NULL};
    tsr_link link = {9, 3, tsr_hash("m", 1)}, back;
    tsr_base_encode(4, &link, bytes);
    cr_assert_eq(tsr_base_decode(&ctx, "BASE.4", bytes, sizeof bytes, 4, &back).code, TSR_OK);
    cr_assert(back.generation == 9 && back.epoch == 3);
    cr_assert(tsr_digest_equal(&back.manifest_hash, &link.manifest_hash));
    cr_assert_eq(tsr_base_decode(&ctx, "BASE.5", bytes, sizeof bytes, 5, &back).code, TSR_STATE);
    for (size_t size = 0; size < sizeof bytes; size++)
        cr_assert_eq(tsr_base_decode(&ctx, "BASE.4", bytes, size, 4, &back).code, TSR_STATE);
    for (size_t i = 0; i < 8 * sizeof bytes; i++) {
        bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
        cr_assert_eq(tsr_base_decode(&ctx, "BASE.4", bytes, sizeof bytes, 4, &back).code,
                     TSR_STATE);
        bytes[i / 8] ^= (uint8_t)(1u << (i % 8));
    }
    link.epoch = 4; /* resumes from its own epoch */
    tsr_base_encode(4, &link, bytes);
    cr_assert_eq(tsr_base_decode(&ctx, "BASE.4", bytes, sizeof bytes, 4, &back).code, TSR_STATE);
}

Test(store_format, names) {
    const struct {
        const char *text;
        tsr_name_kind kind;
        uint64_t epoch, generation;
    } rows[] = {
        {"EPOCH.1", TSR_NAME_EPOCH, 1, 0},
        {"BASE.12", TSR_NAME_BASE, 12, 0},
        {"MANIFEST.34.2", TSR_NAME_MANIFEST, 2, 34},
        {"TEMP.2.77.1234567890123456789", TSR_NAME_TEMP, 2, 0},
        {"3-4", TSR_NAME_GENERATION, 3, 4},
        {"segment.0", TSR_NAME_SEGMENT, 0, 0},
        {"EPOCH.", TSR_NAME_OTHER, 0, 0},
        {"EPOCH.01", TSR_NAME_OTHER, 0, 0},
        {"EPOCH.1x", TSR_NAME_OTHER, 0, 0},
        {"EPOCH.-1", TSR_NAME_OTHER, 0, 0},
        {"EPOCH. 1", TSR_NAME_OTHER, 0, 0},
        {"EPOCH.18446744073709551615", TSR_NAME_OTHER, 0, 0},
        {"EPOCH.18446744073709551616", TSR_NAME_OTHER, 0, 0},
        {"MANIFEST.1", TSR_NAME_OTHER, 0, 0},
        {"MANIFEST.1.2.3", TSR_NAME_OTHER, 0, 0},
        {"MANIFEST.1.2~", TSR_NAME_OTHER, 0, 0},
        {"3-", TSR_NAME_OTHER, 0, 0},
        {"LOCK", TSR_NAME_OTHER, 0, 0},
        {"", TSR_NAME_OTHER, 0, 0},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        char text[TSR_NAME_TEXT_MAX];
        tsr_name name = tsr_name_parse(rows[i].text);
        cr_assert_eq(name.kind, rows[i].kind, "%s", rows[i].text);
        cr_assert(name.epoch == rows[i].epoch && name.generation == rows[i].generation);
        if (name.kind != TSR_NAME_OTHER)
            cr_assert_str_eq(tsr_name_format(&name, text), rows[i].text);
    }
}
