/* SPDX-License-Identifier: Apache-2.0
 *
 * Training and calling a bundle from C, through libtessera alone.
 *
 *     tessera-aot build examples/digits/digits.mlir -o digits.tsb
 *     cc train_predict.c $(pkg-config --cflags --libs tessera) -o train_predict
 *     ./train_predict digits.tsb examples/digits
 *
 * Trains 500 steps without a state directory, then classifies two images from memory.
 */
#include <inttypes.h>
#include <stdio.h>
#include <tessera/tessera.h>

static void on_step(void *user, const tsr_step_report *step) {
    (void)user;
    if (step->step % 100 == 0)
        printf("step %" PRIu64 ": loss %.4f\n", step->step,
               (double)*(const float *)step->outputs[0].data);
}

static tsr_result train(tsr_ctx *ctx, tsr_model *model, const char *folder) {
    char images[1024], labels[1024];
    tsr_train_summary summary;
    snprintf(images, sizeof images, "%s/train-images.npy", folder);
    snprintf(labels, sizeof labels, "%s/train-labels.npy", folder);
    const tsr_binding data[] = {{"images", images}, {"labels", labels}};
    tsr_train_options options = {
        .size_bytes = sizeof options, .steps = 500, .data = data, .data_count = 2};
    options.callbacks.step = on_step;
    return tsr_train(ctx, model, &options, &summary);
}

/* Two rows, although the entry's batch is 64: its rows are independent. */
static tsr_result predict(tsr_ctx *ctx, tsr_model *model) {
    unsigned char pixels[2][64] = {{0}};
    float scores[2][10];
    for (int row = 0; row < 8; row++) { /* a "1" and a "0" */
        pixels[0][row * 8 + 3] = pixels[0][row * 8 + 4] = 16;
        pixels[1][row * 8 + 1] = pixels[1][row * 8 + 6] = row > 0 && row < 7 ? 16 : 0;
        for (int column = 2; column < 6 && row % 7 == 0; column++) pixels[1][row * 8 + column] = 16;
    }
    tsr_tensor input = {"x", TSR_DTYPE_UI8, {2, {2, 64}}, pixels};
    tsr_tensor output = {"y", TSR_DTYPE_F32, {2, {2, 10}}, scores};
    tsr_result result = tsr_model_call(ctx, model, "predict", &input, 1, &output, 1);
    if (result.code) return result;
    for (int row = 0; row < 2; row++) {
        int best = 0;
        for (int i = 1; i < 10; i++)
            if (scores[row][i] > scores[row][best]) best = i;
        printf("image %d looks like a %d\n", row, best);
    }
    return TSR_SUCCESS;
}

int main(int argc, char **argv) {
    tsr_ctx ctx = {0};
    tsr_model *model = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: train_predict BUNDLE FOLDER\n");
        return TSR_USAGE;
    }
    tsr_result result = tsr_model_open(&ctx, argv[1], NULL, &model);
    if (!result.code) printf("%s\n", tsr_model_get_choice(model));
    if (!result.code) result = train(&ctx, model, argv[2]);
    if (!result.code) result = predict(&ctx, model);
    if (result.code) fprintf(stderr, "train_predict: %s\n", ctx.error.text);
    tsr_model_close(&ctx, model);
    return (int)result.code;
}
