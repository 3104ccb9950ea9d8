/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tile: a model of time in cycles of a multiprocessor,
 *
 *     starting + the greater of
 *         what device memory takes for all operands, read and written once
 *         rounds * (steps * the slowest of multiplying, copying and waiting + what storing adds)
 *
 * with whole rounds, because the last one takes as long as the others. Its figures were fitted to
 * times of all tiles at shapes drawn at random, on an H200 (../PERFORMANCE.md); those of a device
 * of another size follow from its sizes.
 */
#include "compiler/tile/gpu/product.h"

enum {
    ROW_BYTES = 128, /* of a ring: what the swizzle turns; of a line of the cache */
    DEEP_STAGES_MAX = 8,
    STAGES_MIN = 3,
    SHARED_OF_BLOCK = 2048, /* for barriers, and what the system takes */
    PARTS_MAX = 8,
    PARTS_STEPS_MIN = 3, /* of K, for each part */
    PART_COLUMNS_MIN = 16,
};

typedef struct device {
    uint32_t arch, multiprocessors, products; /* of 16 bits, in a cycle */
    uint32_t shared_bytes;                    /* of a block, at most */
    uint32_t shared_total;                    /* of a multiprocessor */
    double memory_bytes;                      /* in a cycle */
} device;

static const device devices[] = {{80, 108, 1024, 166912, 167936, 1100},
                                 {90, 132, 2048, 232448, 233472, 2300}};

/* Cycles, and bytes in one. */
static const struct {
    double start, fill, store, store_element, work_element;
    double copy, cache;   /* of a multiprocessor; of all from the second-level cache, each one's */
    double unaligned;     /* rows that are no whole lines are read so often */
    double latency;       /* from asking for a stage to having it */
    double sum, exchange; /* programs that share K: starting together and waiting; bytes */
    double narrow, middle, wide; /* how well products run: 64, 128, 256 columns */
} cost = {.start = 5560,
          .fill = 1500,
          .store = 680,
          .store_element = 0.068,
          .work_element = 0.036,
          .copy = 102,
          .cache = 60,
          .unaligned = 1.66,
          .latency = 1750,
          .sum = 2500,
          .exchange = 32,
          .narrow = 0.58,
          .middle = 0.89,
          .wide = 0.98};

static const tsr_product_tile tiles[] = {
#define X(rows_, columns_, warps_, teams_, registers_)                                             \
    {.rows = rows_,                                                                                \
     .columns = columns_,                                                                          \
     .warps = warps_,                                                                              \
     .teams = teams_,                                                                              \
     .registers = registers_,                                                                      \
     .parts = 1},
#include "compiler/tile/gpu/tiles.def"
#undef X
};
enum { TILES = sizeof tiles / sizeof tiles[0], PARTS = 4, CHOICES = TILES * PARTS };

static const device *find_device(const tsr_target *target) {
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++)
        if (devices[i].arch == target->arch) return &devices[i];
    return NULL;
}

static int64_t divide_up(int64_t x, int64_t y) { return (x + y - 1) / y; }
static double least_of(double x, double y) { return x < y ? x : y; }
static double most_of(double x, double y) { return x > y ? x : y; }

static int64_t programs_of(const tsr_product_shape *shape, const tsr_product_tile *tile) {
    return divide_up(shape->m, tile->rows) * divide_up(shape->n, tile->columns) * shape->batch *
           tile->parts;
}

/* Of a block: rings of stages, what results go through, and what programs that share K exchange. */
static int64_t shared_bytes(const tsr_product_tile *tile, const tsr_product_shape *shape,
                            uint32_t arch) {
    bool through = shape->by_rows && shape->element_bytes == 2 && arch >= 90;
    int64_t depth_bytes = tile->depth * shape->element_bytes;
    return tile->stages * (tile->rows + tile->columns) * depth_bytes +
           (through ? 2 * tile->rows * ROW_BYTES * tile->teams : 0) +
           (tile->parts > 1 ? 4 * tile->rows * tile->columns : 0);
}

/* Blocks of a multiprocessor, by their registers alone. */
static int64_t blocks_wanted(const tsr_product_tile *tile) {
    if (!tile->registers) return 1;
    return 65536 / ((32 * (int64_t)tile->warps + 128) * tile->registers);
}

static int64_t blocks_of(const device *d, const tsr_product_tile *tile, int64_t shared) {
    int64_t by_shared = d->shared_total / (shared + SHARED_OF_BLOCK);
    int64_t blocks = blocks_wanted(tile) < by_shared ? blocks_wanted(tile) : by_shared;
    return blocks < 1 ? 1 : blocks;
}

/* As many stages as fit, with room for as many blocks as registers allow. */
static bool plan_stages(const device *d, const tsr_product_shape *shape, tsr_product_tile *tile) {
    int64_t room = d->shared_bytes - SHARED_OF_BLOCK, wanted = blocks_wanted(tile);
    if (wanted > 1) room = d->shared_total / wanted - SHARED_OF_BLOCK;
    tile->depth = ROW_BYTES / shape->element_bytes;
    for (tile->stages = DEEP_STAGES_MAX; tile->stages >= STAGES_MIN; tile->stages--)
        if (shared_bytes(tile, shape, d->arch) <= room) return true;
    return false;
}

/* Sums and what they are multiplied from fit the registers of a thread. */
static bool fits_registers(const device *d, const tsr_product_tile *tile) {
    int64_t sums = tile->rows * tile->columns / (32 * (int64_t)tile->warps);
    return sums <= (d->arch < 90 ? 64 : 128);
}

static bool fits_parts(const device *d, const tsr_product_shape *shape,
                       const tsr_product_tile *tile) {
    if (tile->parts == 1) return true;
    return d->arch == 90 && tile->teams == 1 && shape->k >= PARTS_STEPS_MIN * 64 * tile->parts &&
           tile->columns / tile->parts % PART_COLUMNS_MIN == 0 &&
           programs_of(shape, tile) <= d->multiprocessors;
}

/* Cycles that bytes of one step take, each multiprocessor's in use. */
static double copy_time(const device *d, const tsr_product_shape *shape,
                        const tsr_product_tile *tile) {
    double a = (double)shape->m / (double)divide_up(shape->m, tile->rows);
    double b = (double)shape->n / (double)divide_up(shape->n, tile->columns);
    double active = least_of((double)programs_of(shape, tile), d->multiprocessors);
    if (shape->a_pitch * shape->element_bytes % ROW_BYTES) a *= cost.unaligned;
    if (shape->b_pitch * shape->element_bytes % ROW_BYTES) b *= cost.unaligned;
    double bytes = (a + b) * (double)tile->depth * shape->element_bytes;
    return most_of(bytes / cost.copy, bytes * active / (cost.cache * d->multiprocessors));
}

static double multiply_time(const device *d, const tsr_product_shape *shape,
                            const tsr_product_tile *tile) {
    double rate = d->products * 2.0 / shape->element_bytes;
    rate *= tile->columns >= 256 && tile->rows >= 128 ? cost.wide
            : tile->columns >= 128                    ? cost.middle
                                                      : cost.narrow;
    return (double)(tile->rows * tile->columns * tile->depth) / rate;
}

static double time_of(const device *d, const tsr_product_shape *shape,
                      const tsr_product_tile *tile) {
    double programs = (double)programs_of(shape, tile), area = (double)(tile->rows * tile->columns);
    int64_t blocks = blocks_of(d, tile, shared_bytes(tile, shape, d->arch));
    double together =
        least_of((double)blocks, (double)divide_up((int64_t)programs, d->multiprocessors));
    double steps = (double)divide_up(divide_up(shape->k, tile->depth), tile->parts);
    double work = most_of(multiply_time(d, shape, tile), copy_time(d, shape, tile)) * together;
    double loop = steps * most_of(work, cost.latency / tile->stages);
    double store =
        cost.store + area * (cost.store_element + cost.work_element * shape->work) / tile->parts;
    if (tile->parts > 1) store += cost.sum + 4 * area / cost.exchange;
    double rounds = (double)divide_up((int64_t)programs, blocks * d->multiprocessors);
    double all = rounds * (loop + store);
    if (tile->teams > 1) /* one stores while the other one multiplies */
        all = rounds * loop + store + (rounds - 1) * most_of(0, store - loop) / 2;
    double bytes = ((double)shape->m * (double)shape->k + (double)shape->k * (double)shape->n +
                    (double)shape->m * (double)shape->n) *
                   (double)shape->batch * shape->element_bytes;
    return cost.start + cost.fill + most_of(all, bytes / d->memory_bytes);
}

/* Choice number `index`: a tile, and in how many parts K is. */
static bool make_choice(const device *d, const tsr_product_shape *shape, size_t index,
                        tsr_product_tile *tile) {
    *tile = tiles[index / PARTS];
    tile->parts = 1u << index % PARTS;
    if (tile->parts > 1) tile->registers = 0; /* there is one block */
    return (d->arch == 90 || tile->teams == 1) && fits_registers(d, tile) &&
           fits_parts(d, shape, tile) && plan_stages(d, shape, tile);
}

bool tsr_product_select(const tsr_target *target, const tsr_product_shape *shape, uint32_t skip,
                        tsr_product_tile *out_tile) {
    const device *d = find_device(target);
    bool left_out[CHOICES] = {false};
    if (!d) return false;
    for (uint32_t round = 0; round <= skip; round++) {
        size_t best = CHOICES;
        double least = 0;
        for (size_t i = 0; i < CHOICES; i++) {
            tsr_product_tile tile;
            if (left_out[i] || !make_choice(d, shape, i, &tile)) continue;
            double time = time_of(d, shape, &tile);
            if (best < CHOICES && time >= least) continue;
            best = i;
            least = time;
            *out_tile = tile;
        }
        if (best == CHOICES) return false;
        left_out[best] = true;
    }
    return true;
}
