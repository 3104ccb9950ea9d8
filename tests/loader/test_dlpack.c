/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls and steps on tensors of DLPack, compared with calls on dense memory: random strides and
 * offsets, what is read and written in place, what is refused, a fork after the model was opened.
 * The programs are open.mlir with N = 1, 8 and 64, which reads floats, and the digits.
 */
#include "loader/calls/strided.h"
#include "loader/model.h"
#include "runtime/base/array.h"
#include "tests/loader/digits.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { X = 24, B = 6, Y = 10, N = 8, GUARD = 64, LOG = 4096 };

static digits d;
static tsr_model *model; /* of open.mlir */
static float x[N][X], b[2 * N][B], s[Y];
static char lines[LOG]; /* what was logged */
static uint64_t random_state = 1;

static uint64_t draw(uint64_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

static void note(void *user, tsr_log_level level, const char *text) {
    size_t used = strlen(lines);
    (void)user, (void)level;
    snprintf(lines + used, LOG - used, "%s\n", text);
}

static void must(tsr_result result) { digits_must(&d, result); }

static void init(void) {
    const char *path = getenv("TESSERA_COPIES_BUNDLE");
    const tsr_model_options options = {.size_bytes = sizeof options, .threads = 2};
    digits_init(&d);
    if (!path) cr_skip_test("TESSERA_COPIES_BUNDLE names no bundle");
    must(tsr_model_open(&d.ctx, path, &options, &model));
    must(tsr_model_initialize(&d.ctx, model, 7));
    must(tsr_model_initialize(&d.ctx, d.model, 3));
    for (size_t i = 0; i < N * X; i++) x[i / X][i % X] = (float)draw(1000) / 500 - 1;
    for (size_t i = 0; i < 2 * N * B; i++) b[i / B][i % B] = (float)draw(1000) / 500 - 1;
    for (size_t i = 0; i < Y; i++) s[i] = (float)draw(1000) / 500 - 1;
    d.ctx.log = note;
    d.ctx.log_level = TSR_LOG_DEBUG;
}
static void finish(void) {
    tsr_model_close(&d.ctx, model);
    digits_finish(&d);
}
TestSuite(dlpack, .init = init, .fini = finish, .timeout = 60);

/* ---- tensors as an exporter makes them ---- */

typedef struct exported {
    tsr_dlpack_managed managed;
    int64_t dims[TSR_RANK_MAX], strides[TSR_RANK_MAX];
} exported;

static tsr_dlpack_managed *export(exported *self, tsr_dtype dtype, void *data, int32_t rank,
                                  const int64_t *dims, const int64_t *strides) {
    *self = (exported){.managed = {.version = {1, 0},
                                   .tensor = {.data = data,
                                              .device = {TSR_DLPACK_CPU, 0},
                                              .rank = rank,
                                              .dtype = tsr_dlpack_make_dtype(dtype),
                                              .dims = self->dims,
                                              .strides = strides ? self->strides : NULL}}};
    memcpy(self->dims, dims, (size_t)rank * sizeof *dims);
    if (strides) memcpy(self->strides, strides, (size_t)rank * sizeof *strides);
    return &self->managed;
}

typedef struct predicted {
    float y[N][Y], z[2 * N], copy[N][X], fixed[Y];
} predicted;

static void call_dense(predicted *out) {
    const tsr_tensor inputs[] = {{"x", TSR_DTYPE_F32, {2, {N, X}}, x},
                                 {"b", TSR_DTYPE_F32, {2, {2 * N, B}}, b},
                                 {"s", TSR_DTYPE_F32, {1, {Y}}, s}};
    const tsr_tensor outputs[] = {{"y", TSR_DTYPE_F32, {2, {N, Y}}, out->y},
                                  {"z", TSR_DTYPE_F32, {1, {2 * N}}, out->z},
                                  {"copy", TSR_DTYPE_F32, {2, {N, X}}, out->copy},
                                  {"fixed", TSR_DTYPE_F32, {1, {Y}}, out->fixed}};
    must(tsr_model_call(&d.ctx, model, "predict", inputs, 3, outputs, 4));
}

/* ---- strides ---- */

/* Puts `count` floats as a tensor of these dims into memory in a random order of dims, with random
 * gaps and signs of the strides; `memory` has room. Returns the tensor. */
static tsr_dlpack_managed *scatter(exported *self, char *memory, const float *values, int32_t rank,
                                   const int64_t *dims) {
    int64_t strides[TSR_RANK_MAX] = {0}, stride = 1 + (int64_t)draw(3), origin = 0, count = 1;
    bool swapped = rank == 2 && draw(2);
    for (int32_t n = 0; n < rank; n++) {
        int32_t dim = swapped ? n : rank - 1 - n;
        strides[dim] = draw(2) ? stride : -stride;
        if (strides[dim] < 0) origin += stride * (dims[dim] - 1);
        stride = stride * dims[dim] + (int64_t)draw(3);
        count *= dims[dim];
    }
    size_t offset = draw(3) * 3; /* also addresses that are not aligned to elements */
    export(self, TSR_DTYPE_F32, memory, rank, dims, strides);
    self->managed.tensor.offset_bytes = offset + (size_t)origin * sizeof *values;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rank == 2 ? i / dims[1] : i, column = rank == 2 ? i % dims[1] : 0;
        int64_t at = origin + row * strides[0] + (rank == 2 ? column * strides[1] : 0);
        if (values) memcpy(memory + offset + at * 4, &values[i], sizeof *values);
    }
    return &self->managed;
}

static float gather(const exported *from, int64_t row, int64_t column) {
    const tsr_dlpack_tensor *t = &from->managed.tensor;
    int64_t at = row * t->strides[0] + (t->rank == 2 ? column * t->strides[1] : 0);
    float value;
    memcpy(&value, (char *)t->data + t->offset_bytes + at * 4, sizeof value);
    return value;
}

Test(dlpack, random_strides_give_the_bits_of_dense_memory) {
    static char memory[5][1 << 16];
    static const int64_t x_dims[] = {N, X}, b_dims[] = {2 * N, B}, s_dims[] = {Y},
                         y_dims[] = {N, Y}, z_dims[] = {2 * N};
    predicted expected;
    call_dense(&expected);
    for (int round = 0; round < 300; round++) {
        exported of[5];
        for (int i = 0; i < 5; i++) memset(memory[i], 0x5a, sizeof memory[i]);
        const tsr_dlpack_view inputs[] = {{"s", scatter(&of[2], memory[2], s, 1, s_dims)},
                                          {"x", scatter(&of[0], memory[0], x[0], 2, x_dims)},
                                          {"b", scatter(&of[1], memory[1], b[0], 2, b_dims)}};
        tsr_dlpack_view outputs[] = {{"y", scatter(&of[3], memory[3], NULL, 2, y_dims)},
                                     {"z", scatter(&of[4], memory[4], NULL, 1, z_dims)}};
        must(tsr_model_call_dlpack(&d.ctx, model, "predict", NULL, inputs, 3, outputs, 2));
        for (int64_t i = 0; i < N * Y; i++)
            cr_assert_eq(gather(&of[3], i / Y, i % Y), expected.y[i / Y][i % Y], "round %d", round);
        for (int64_t i = 0; i < 2 * N; i++)
            cr_assert_eq(gather(&of[4], i, 0), expected.z[i], "round %d", round);
        size_t changed = 0;
        for (size_t i = 0; i < sizeof memory[3]; i++) changed += memory[3][i] != 0x5a;
        cr_assert_leq(changed, sizeof expected.y, "written between the elements");
        lines[0] = 0;
    }
}

Test(dlpack, repeated_rows_by_number) {
    static const int64_t x_dims[] = {N, X}, x_strides[] = {0, 1}, b_dims[] = {2 * N, B},
                         s_dims[] = {Y};
    exported of[3];
    predicted expected;
    const tsr_dlpack_view inputs[] = {
        {NULL, export(&of[0], TSR_DTYPE_F32, x[3], 2, x_dims, x_strides)},
        {NULL, export(&of[1], TSR_DTYPE_F32, b, 2, b_dims, NULL)},
        {NULL, export(&of[2], TSR_DTYPE_F32, s, 1, s_dims, NULL)}};
    tsr_dlpack_view y = {NULL, NULL};
    must(tsr_model_call_dlpack(&d.ctx, model, NULL, NULL, inputs, 3, &y, 1));
    const tsr_dlpack_tensor *t = &y.tensor->tensor;
    cr_assert(t->rank == 2 && t->dims[0] == N && t->dims[1] == Y && t->strides[0] == Y);
    for (size_t r = 0; r < N; r++)
        if (r != 3) memcpy(x[r], x[3], sizeof x[r]);
    call_dense(&expected);
    cr_assert_eq(memcmp(t->data, expected.y, sizeof expected.y), 0);
    y.tensor->deleter(y.tensor);
}

/* Rows of bytes in reverse, any number of them, in batches of 64. */
Test(dlpack, batches_of_rows) {
    static float expected[DIGITS_TEST_ROWS * DIGITS_CLASSES];
    uint8_t *images = digits_test_images(&d);
    static const uint64_t counts[] = {0, 1, 64, 65, 200, DIGITS_TEST_ROWS};
    must(digits_predict(&d.ctx, d.model, images, DIGITS_TEST_ROWS, expected));
    for (size_t i = 0; i < TSR_COUNT(counts); i++) {
        int64_t rows = (int64_t)counts[i], dims[] = {rows, DIGITS_PIXELS},
                strides[] = {-DIGITS_PIXELS, 1};
        exported of;
        uint8_t *last = images + (DIGITS_TEST_ROWS - 1) * DIGITS_PIXELS;
        const tsr_dlpack_view in = {"x", export(&of, TSR_DTYPE_UI8, last, 2, dims, strides)};
        tsr_dlpack_view out = {"y", NULL};
        must(tsr_model_call_dlpack(&d.ctx, d.model, "predict", NULL, &in, 1, &out, 1));
        const float *y = out.tensor->tensor.data;
        cr_assert_eq(out.tensor->tensor.dims[0], rows);
        for (int64_t r = 0; r < rows; r++)
            cr_assert_eq(memcmp(y + r * DIGITS_CLASSES,
                                expected + (DIGITS_TEST_ROWS - 1 - r) * DIGITS_CLASSES,
                                DIGITS_CLASSES * sizeof *y),
                         0, "row %d of %d", (int)r, (int)rows);
        out.tensor->deleter(out.tensor);
    }
    free(images);
}

/* ---- in place ---- */

/* The executor's own memory of the ports is not touched, memory before and after the caller's is
 * not accessed. */
Test(dlpack, dense_floats_stay_where_they_are) {
    static const int64_t x_dims[] = {N, X}, b_dims[] = {2 * N, B}, s_dims[] = {Y},
                         y_dims[] = {N, Y};
    static _Alignas(64) float y[N * Y + GUARD];
    predicted expected;
    exported of[4];
    long page = sysconf(_SC_PAGESIZE);
    size_t entry =
        (size_t)(tsr_config_find_entry(&model->config, "predict[N=8]") - model->config.entries);
    call_dense(&expected);
    char *pages =
        mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    char *at = pages + page - sizeof x; /* ends where the readable memory ends */
    memcpy(at, x, sizeof x);
    cr_assert_eq(mprotect(pages, (size_t)page, PROT_READ), 0);
    cr_assert_eq(mprotect(pages + page, (size_t)page, PROT_NONE), 0);
    float *own = tsr_executor_get_input(model->executor, entry, 0);
    float *own_y = tsr_executor_get_output(model->executor, entry, 0);
    own[0] = own_y[0] = 77;
    for (size_t i = 0; i < TSR_COUNT(y); i++) y[i] = 55;
    lines[0] = 0;
    const tsr_dlpack_view inputs[] = {{"x", export(&of[0], TSR_DTYPE_F32, at, 2, x_dims, NULL)},
                                      {"b", export(&of[1], TSR_DTYPE_F32, b, 2, b_dims, NULL)},
                                      {"s", export(&of[2], TSR_DTYPE_F32, s, 1, s_dims, NULL)}};
    tsr_dlpack_view output = {"y", export(&of[3], TSR_DTYPE_F32, y, 2, y_dims, NULL)};
    of[0].managed.flags = TSR_DLPACK_READ_ONLY;
    must(tsr_model_call_dlpack(&d.ctx, model, "predict", NULL, inputs, 3, &output, 1));
    cr_assert(strstr(lines, "input 'x' is read in place") &&
                  strstr(lines, "output 'y' is written in place"),
              "%s", lines);
    cr_assert(own[0] == 77 && own_y[0] == 77, "the executor's memory was used");
    cr_assert_eq(memcmp(y, expected.y, sizeof expected.y), 0);
    for (size_t i = N * Y; i < TSR_COUNT(y); i++) cr_assert_eq(y[i], 55, "written past the end");
    munmap(pages, 2 * (size_t)page);
    predicted again; /* no loan is left */
    call_dense(&again);
    cr_assert_eq(memcmp(&again, &expected, sizeof again), 0);
}

Test(dlpack, output_over_its_input) {
    static const int64_t dims[] = {N, X}, b_dims[] = {2 * N, B}, s_dims[] = {Y};
    static _Alignas(64) float both[N * X + X];
    exported of[4];
    for (size_t shift = 0; shift <= X; shift += X) {
        memcpy(both, x, sizeof x);
        const tsr_dlpack_view inputs[] = {{"x", export(&of[0], TSR_DTYPE_F32, both, 2, dims, NULL)},
                                          {"b", export(&of[1], TSR_DTYPE_F32, b, 2, b_dims, NULL)},
                                          {"s", export(&of[2], TSR_DTYPE_F32, s, 1, s_dims, NULL)}};
        tsr_dlpack_view copy = {"copy", export(&of[3], TSR_DTYPE_F32, both + shift, 2, dims, NULL)};
        must(tsr_model_call_dlpack(&d.ctx, model, "predict", NULL, inputs, 3, &copy, 1));
        cr_assert_eq(memcmp(both + shift, x, sizeof x), 0);
    }
}

/* ---- what is refused ---- */

Test(dlpack, tensors_that_do_not_fit) {
    int64_t dims[] = {2, DIGITS_PIXELS}, y_dims[] = {2, DIGITS_CLASSES}, folded[] = {3, 1};
    uint8_t *images = digits_test_images(&d);
    static float y[64];
    exported in, out;
    tsr_dlpack_view input = {"x", &in.managed}, output = {"y", &out.managed};
    tsr_dlpack_tensor *x_at = &in.managed.tensor, *y_at = &out.managed.tensor;
#define RESET                                                                                      \
    (export(&in, TSR_DTYPE_UI8, images, 2, dims, NULL),                                            \
     export(&out, TSR_DTYPE_F32, y, 2, y_dims, NULL))
#define CALL() tsr_model_call_dlpack(&d.ctx, d.model, "predict", NULL, &input, 1, &output, 1)
#define BAD(change, code, ...) RESET, change, REFUSED(&d, CALL(), code, __VA_ARGS__)
    RESET, must(CALL());
    BAD(in.managed.version.major = 2, TSR_VERSION, "'x'", "DLPack 2.0", "1.x");
    BAD(x_at->device.type = 10, TSR_USAGE, "'x'", "device type 10");
    BAD(x_at->device.type = TSR_DLPACK_CUDA, TSR_USAGE, "'x'", "GPU 0", "runs on 'cpu:");
    BAD(x_at->dtype.code = 5, TSR_DATA, "'x'", "complex", "8 bits");
    BAD(x_at->dtype.code = 9, TSR_DATA, "'x'", "code 9");
    BAD(x_at->dtype.lanes = 4, TSR_DATA, "'x'", "4 lanes");
    BAD(x_at->dtype.bits = 4, TSR_DATA, "'x'", "4 bits");
    BAD(x_at->rank = 9, TSR_DATA, "'x' has 9 dims");
    BAD(x_at->rank = -1, TSR_DATA, "'x' has -1 dims");
    BAD(in.dims[1] = -3, TSR_DATA, "dim 1 of input 'x' is -3");
    BAD((x_at->strides = in.strides, in.strides[0] = INT64_MAX / 2, in.dims[0] = 9), TSR_DATA,
        "strides", "'x'", "2^63");
    BAD(in.dims[0] = INT64_MAX, TSR_DATA, "'x'", "2^63");
    BAD(in.dims[1] = 63, TSR_DATA, "2x63xui8", "64x64xui8");
    BAD(x_at->data = NULL, TSR_USAGE, "'x' has no memory");
    BAD(out.managed.flags = TSR_DLPACK_READ_ONLY, TSR_USAGE, "'y' is read-only");
    BAD((y_at->strides = out.strides, memcpy(out.strides, folded, sizeof folded)), TSR_DATA, "'y'",
        "share memory");
    BAD(out.dims[0] = 3, TSR_DATA, "3x10xf32", "2x10xf32");
    RESET, input.name = NULL, must(CALL());
    input.tensor = NULL;
    REFUSED(&d, CALL(), TSR_USAGE, "input 0 has no tensor");
    input.tensor = &in.managed, input.name = "x", output.name = "z", output.tensor = NULL;
    REFUSED(&d, CALL(), TSR_USAGE, "no output 'z'");
    cr_assert_null(output.tensor);
    const tsr_dlpack_view two[] = {{NULL, &in.managed}, {NULL, &in.managed}};
    REFUSED(&d, tsr_model_call_dlpack(&d.ctx, d.model, "predict", NULL, two, 2, NULL, 0), TSR_USAGE,
            "'predict' has no input number 1");
    free(images);
#undef BAD
#undef CALL
#undef RESET
}

/* ---- training ---- */

Test(dlpack, steps_have_the_bits_of_views) {
    static uint8_t transposed[DIGITS_PIXELS][DIGITS_BATCH];
    uint8_t *images = digits_test_images(&d);
    int64_t *labels = digits_test_labels(&d), label_dims[] = {DIGITS_BATCH},
            dims[] = {DIGITS_BATCH, DIGITS_PIXELS}, strides[] = {1, DIGITS_BATCH};
    float losses[2] = {0, 1};
    tsr_digest hashes[2];
    for (size_t i = 0; i < sizeof transposed; i++)
        transposed[i % DIGITS_PIXELS][i / DIGITS_PIXELS] = images[i];
    for (int by_dlpack = 0; by_dlpack < 2; by_dlpack++) {
        tsr_trainer_options options = {.size_bytes = sizeof options, .has_seed = true, .seed = 5};
        tsr_trainer *trainer = NULL;
        exported of[2];
        must(tsr_trainer_open(&d.ctx, d.model, &options, &trainer));
        const tsr_view views[] = {
            {.dtype = TSR_DTYPE_UI8, .shape = {2, {DIGITS_BATCH, DIGITS_PIXELS}}, .data = images},
            {.dtype = TSR_DTYPE_I64, .shape = {1, {DIGITS_BATCH}}, .data = labels}};
        const tsr_view loss = {"loss", TSR_DTYPE_F32, {0}, &losses[0], TSR_LOCATION_HOST};
        const tsr_dlpack_view tensors[] = {
            {"labels", export(&of[1], TSR_DTYPE_I64, labels, 1, label_dims, NULL)},
            {"images", export(&of[0], TSR_DTYPE_UI8, transposed, 2, dims, strides)}};
        for (int i = 0; i < 3; i++) {
            tsr_dlpack_view out = {"loss", NULL};
            must(by_dlpack ? tsr_trainer_step_dlpack(&d.ctx, trainer, NULL, tensors, 2, &out, 1)
                           : tsr_trainer_step(&d.ctx, trainer, views, 2, &loss, 1));
            if (!by_dlpack) continue;
            losses[1] = *(const float *)out.tensor->tensor.data;
            out.tensor->deleter(out.tensor);
        }
        tsr_dlpack_view unknown = {"lost", NULL};
        if (by_dlpack)
            REFUSED(&d, tsr_trainer_step_dlpack(&d.ctx, trainer, NULL, tensors, 2, &unknown, 1),
                    TSR_USAGE, "no output 'lost'");
        must(tsr_model_hash_state(&d.ctx, d.model, &hashes[by_dlpack]));
        tsr_trainer_close(&d.ctx, trainer);
    }
    cr_assert_eq(losses[0], losses[1]);
    cr_assert(tsr_digest_equal(&hashes[0], &hashes[1]));
    free(images);
    free(labels);
}

/* ---- steps that draw their rows ---- */

static tsr_result step_on(tsr_trainer *trainer, uint64_t rows, uint8_t *images, int64_t *labels,
                          bool drawn) {
    const tsr_view views[] = {
        {.dtype = TSR_DTYPE_UI8, .shape = {2, {rows, DIGITS_PIXELS}}, .data = images},
        {.dtype = TSR_DTYPE_I64, .shape = {1, {rows}}, .data = labels}};
    return (drawn ? tsr_trainer_step_drawn : tsr_trainer_step)(&d.ctx, trainer, views, 2, NULL, 0);
}

Test(dlpack, drawn_batches_are_those_of_the_position) {
    uint8_t *images = digits_test_images(&d), batch[DIGITS_BATCH][DIGITS_PIXELS];
    int64_t *labels = digits_test_labels(&d), batch_labels[DIGITS_BATCH];
    tsr_trainer_options options = {.size_bytes = sizeof options, .rows = DIGITS_TEST_ROWS};
    tsr_trainer *trainer = NULL;
    tsr_digest hashes[2];
    for (int drawn = 0; drawn < 2; drawn++) {
        must(tsr_trainer_open(&d.ctx, d.model, &options, &trainer));
        for (int i = 0; i < 30; i++) { /* five epochs */
            for (uint64_t r = 0; r < DIGITS_BATCH; r++) {
                uint64_t row = tsr_position_get_row(tsr_trainer_get_position(trainer), r);
                memcpy(batch[r], images + row * DIGITS_PIXELS, DIGITS_PIXELS);
                batch_labels[r] = labels[row];
            }
            must(drawn ? step_on(trainer, DIGITS_TEST_ROWS, images, labels, true)
                       : step_on(trainer, DIGITS_BATCH, batch[0], batch_labels, false));
        }
        must(tsr_model_hash_state(&d.ctx, d.model, &hashes[drawn]));
        REFUSED(&d, step_on(trainer, DIGITS_TEST_ROWS - 1, images, labels, true), TSR_DATA,
                "input 'images' is 358x64xui8; expected 359x64xui8");
        tsr_trainer_close(&d.ctx, trainer);
    }
    cr_assert(tsr_digest_equal(&hashes[0], &hashes[1]));
    options.rows = 0;
    must(tsr_trainer_open(&d.ctx, d.model, &options, &trainer));
    REFUSED(&d, step_on(trainer, DIGITS_TEST_ROWS, images, labels, true), TSR_USAGE,
            "without the number of rows");
    tsr_trainer_close(&d.ctx, trainer);
    free(images);
    free(labels);
}

/* ---- fork ---- */

/* The child has no threads of the model: it is told so at once, and can open another model. */
static int in_child(void) {
    predicted out;
    tsr_model *other = NULL;
    const tsr_tensor input = {"s", TSR_DTYPE_F32, {1, {Y}}, s};
    tsr_result result = tsr_model_call(&d.ctx, model, "predict", &input, 1, NULL, 0);
    if (result.code != TSR_USAGE || !strstr(d.ctx.error.text, "a fork of it")) return 1;
    if (tsr_model_initialize(&d.ctx, model, 1).code != TSR_USAGE) return 2;
    tsr_model_close(&d.ctx, model);
    if (!strstr(lines, "before this process was forked")) return 3;
    if (tsr_model_open(&d.ctx, getenv("TESSERA_COPIES_BUNDLE"), NULL, &other).code) return 4;
    if (tsr_model_initialize(&d.ctx, other, 7).code) return 5;
    model = other;
    call_dense(&out);
    tsr_model_close(&d.ctx, other);
    return 0;
}

Test(dlpack, a_fork_is_refused) {
    predicted before, after;
    int status = -1;
    call_dense(&before);
    pid_t child = fork();
    if (child == 0) _exit(in_child());
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    call_dense(&after);
    cr_assert_eq(memcmp(&before, &after, sizeof before), 0);
}
