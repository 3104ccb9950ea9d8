// SPDX-License-Identifier: Apache-2.0
//
// Training from memory, from C++: the program draws its own batches, watches the loss, and halves a
// layer's weights once.
//
//     tessera-aot build examples/digits/digits.mlir -o digits.tsb
//     c++ -std=c++17 steps.cpp $(pkg-config --cflags --libs tessera) -o steps
//     ./steps digits.tsb
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <tessera/tessera.h>
#include <vector>

namespace {

constexpr std::uint64_t batch = 64, pixels = 64, classes = 10;

struct context : tsr_ctx {
    context() : tsr_ctx{} {}
    void must(tsr_result result) const {
        if (result.code) throw std::runtime_error(error.text);
    }
};

// The handles of the library, closed when they go out of scope.
template <class T, void (*close)(tsr_ctx *, T *)> struct closer {
    context *ctx;
    void operator()(T *handle) const { close(ctx, handle); }
};
using model = std::unique_ptr<tsr_model, closer<tsr_model, tsr_model_close>>;
using trainer = std::unique_ptr<tsr_trainer, closer<tsr_trainer, tsr_trainer_close>>;

model open_model(context &ctx, const char *path) {
    tsr_model *opened = nullptr;
    ctx.must(tsr_model_open(&ctx, path, nullptr, &opened));
    return model(opened, {&ctx});
}

trainer open_trainer(context &ctx, tsr_model *of) {
    tsr_trainer_options options{};
    options.size_bytes = sizeof options;
    tsr_trainer *opened = nullptr;
    ctx.must(tsr_trainer_open(&ctx, of, &options, &opened));
    return trainer(opened, {&ctx});
}

// Images of bars: class c has a bright bar in column c % 8, and row c / 8 marks classes 8 and 9.
struct bars {
    std::vector<std::uint8_t> images = std::vector<std::uint8_t>(batch * pixels);
    std::vector<std::int64_t> labels = std::vector<std::int64_t>(batch);

    static tsr_result next(tsr_ctx *, void *user, const tsr_position *position, tsr_view *inputs,
                           std::size_t, bool *) {
        auto *self = static_cast<bars *>(user);
        for (std::uint64_t i = 0; i < batch; i++) {
            std::uint64_t label = (position->sample + i) % classes;
            self->labels[i] = static_cast<std::int64_t>(label);
            for (std::uint64_t p = 0; p < pixels; p++)
                self->images[i * pixels + p] =
                    p % 8 == label % 8 || p / 8 == 7 * (label / 8) ? 16 : 0;
        }
        inputs[0].data = self->images.data();
        inputs[1].data = self->labels.data();
        return TSR_SUCCESS;
    }
};

double run(context &ctx, tsr_trainer *of, bars &data, std::uint64_t steps) {
    tsr_trainer_run_options options{};
    options.size_bytes = sizeof options;
    options.steps = steps;
    options.batch = bars::next;
    options.batch_user = &data;
    ctx.must(tsr_trainer_run(&ctx, of, &options));
    std::size_t count = 0;
    const tsr_tensor *outputs = tsr_trainer_get_outputs(of, &count);
    return tsr_dtype_read(outputs[0].dtype, outputs[0].data, 0);
}

void halve(context &ctx, tsr_model *of, const char *name) {
    const tsr_config_tensor *tensor = tsr_config_find_tensor(tsr_model_get_config(of), name);
    std::uint64_t count = 0;
    if (!tensor || !tsr_shape_count(&tensor->shape, &count)) throw std::runtime_error(name);
    std::vector<float> values(count);
    tsr_view view{tensor->name, tensor->dtype, tensor->shape, values.data(), TSR_LOCATION_HOST};
    ctx.must(tsr_model_read_tensor(&ctx, of, &view));
    for (float &value : values) value *= 0.5F;
    ctx.must(tsr_model_write_tensor(&ctx, of, &view));
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: steps BUNDLE\n");
        return TSR_USAGE;
    }
    context ctx;
    try {
        model opened = open_model(ctx, argv[1]);
        trainer training = open_trainer(ctx, opened.get());
        bars data;
        double first = run(ctx, training.get(), data, 1),
               last = run(ctx, training.get(), data, 100);
        std::printf("loss %.4f after step 1, %.4f after step 100\n", first, last);
        halve(ctx, opened.get(), "layer3.weight");
        std::printf("loss %.4f with half the weights of the last layer\n",
                    run(ctx, training.get(), data, 101));
    } catch (const std::exception &error) {
        std::fprintf(stderr, "steps: %s\n", error.what());
        return ctx.error.code ? ctx.error.code : 1;
    }
    return 0;
}
