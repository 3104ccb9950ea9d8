/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tile: a model of time in cycles of a multiprocessor,
 *
 *     waves * (blocks of a wave * products / how well they run + what storing leaves uncovered)
 *
 * with whole waves, because the last one takes as long as the others. The figures are those of
 * Hopper's and Ampere's multiprocessors; their ratios decide, so that a device of another size gets
 * a tile that is good for it too.
 */
#include "compiler/tile/gpu/product.h"

enum {
    ROW_BYTES = 128, /* of a ring: what the swizzle turns */
    DEEP_STAGES_MAX = 8,
    STAGES_MIN = 3,
    SHARED_OF_BLOCK = 2048, /* for barriers, and what the system takes */
};

typedef struct device {
    uint32_t arch, multiprocessors, products; /* of 16 bits, in a cycle */
    uint32_t shared_bytes;                    /* of a block, at most */
    uint32_t shared_total;                    /* of a multiprocessor */
} device;

static const device devices[] = {{80, 108, 1024, 166912, 167936}, {90, 132, 2048, 232448, 233472}};

static const tsr_product_tile tiles[] = {
#define X(rows_, columns_, warps_, registers_)                                                     \
    {.rows = rows_, .columns = columns_, .warps = warps_, .registers = registers_},
#include "compiler/tile/gpu/tiles.def"
#undef X
};
enum { TILES = sizeof tiles / sizeof tiles[0] };

static const device *find_device(const tsr_target *target) {
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (devices[i].arch == target->arch) return &devices[i];
    return NULL;
}

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }

/* Of one program: rings of stages, and what results go through. */
static int64_t shared_bytes(const tsr_product_tile *tile, const tsr_product_shape *shape,
                            uint32_t arch) {
    bool through = shape->by_rows && shape->element_bytes == 2 && arch >= 90;
    int64_t depth_bytes = tile->depth * shape->element_bytes;
    return tile->stages * (tile->rows + tile->columns) * depth_bytes +
           (through ? 2 * tile->rows * ROW_BYTES : 0);
}

static uint32_t blocks_of(const device *d, const tsr_product_tile *tile, int64_t shared) {
    int64_t threads = 32 * (int64_t)tile->warps + 128;
    if (!tile->registers) return 1;
    int64_t by_registers = 65536 / (threads * tile->registers);
    int64_t by_shared = d->shared_total / (shared + SHARED_OF_BLOCK);
    int64_t blocks = by_registers < by_shared ? by_registers : by_shared;
    return blocks < 1 ? 1 : (uint32_t)blocks;
}

/* As many stages as fit, with room for as many blocks as registers allow. */
static bool plan_stages(const device *d, const tsr_product_shape *shape, tsr_product_tile *tile) {
    int64_t room = d->shared_bytes - SHARED_OF_BLOCK;
    int64_t wanted = 1;
    if (tile->registers) wanted = 65536 / ((32 * (int64_t)tile->warps + 128) * tile->registers);
    if (wanted > 1) room = d->shared_total / wanted - SHARED_OF_BLOCK;
    tile->depth = ROW_BYTES / shape->element_bytes;
    for (tile->stages = DEEP_STAGES_MAX; tile->stages >= STAGES_MIN; tile->stages--)
        if (shared_bytes(tile, shape, d->arch) <= room) return true;
    return false;
}

/* Sums and what they are multiplied from fit the registers of a thread. */
static bool fits_registers(const device *d, const tsr_product_shape *shape,
                           const tsr_product_tile *tile) {
    int64_t sums = tile->rows * tile->columns / (32 * (int64_t)tile->warps);
    if (d->arch < 90) return sums <= 64;
    return sums <= 128 && (shape->work <= 4 || sums < 128);
}

static double time_of(const device *d, const tsr_product_shape *shape,
                      const tsr_product_tile *tile) {
    int64_t programs =
        divide_up(shape->m, tile->rows) * divide_up(shape->n, tile->columns) * shape->batch;
    uint32_t blocks = blocks_of(d, tile, shared_bytes(tile, shape, d->arch));
    int64_t waves = divide_up(programs, (int64_t)blocks * d->multiprocessors);
    double area = (double)(tile->rows * tile->columns);
    /* Narrow tiles read shared memory more often for each product. */
    double width = (double)(tile->rows < tile->columns ? tile->rows : tile->columns);
    double well = width >= 128 ? 1 : width >= 64 ? 0.8 : 0.5;
    if (area < 128 * 256) well *= 0.97;
    double steps = (double)divide_up(shape->k, tile->depth);
    double rate = d->products * 2.0 / shape->element_bytes;
    double multiply = area * (double)tile->depth * steps / rate / well;
    double store = 1000 + area * (0.07 + 0.012 * shape->work);
    double fill = 1500;
    if (blocks > 1) return (double)waves * (blocks * multiply + store) + fill;
    return (double)waves * (multiply + store) + fill;
}

bool tsr_product_select(const tsr_target *target, const tsr_product_shape *shape, uint32_t skip,
                        tsr_product_tile *out_tile) {
    const device *d = find_device(target);
    bool left_out[TILES] = {false};
    if (!d) return false;
    for (uint32_t round = 0; round <= skip; round++) {
        size_t best = TILES;
        double least = 0;
        for (size_t i = 0; i < TILES; i++) {
            tsr_product_tile tile = tiles[i];
            if (left_out[i] || !fits_registers(d, shape, &tile) || !plan_stages(d, shape, &tile))
                continue;
            double time = time_of(d, shape, &tile);
            if (best < TILES && time >= least) continue;
            best = i;
            least = time;
            *out_tile = tile;
        }
        if (best == TILES) return false;
        left_out[best] = true;
    }
    return true;
}
