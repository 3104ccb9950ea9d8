/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects the tile of a product with a model of its time, in cycles of a multiprocessor:
 *
 *     starting + the greater time, and a part of the other one,
 *         the time of device memory for all operands, read and written once
 *         rounds * (steps * the slowest of multiplying, copying and waiting + the time to store)
 *
 * The number of rounds is nearly whole, because the last round takes hardly less time than the
 * others. The slowest of the three is a little slower if another one is about as slow. The time of
 * copies is the time of the largest program's copies; the copies of all programs together are the
 * mean. The constants were fitted to times of the tiles that are worth it, at shapes drawn at
 * random, on an H200 (../PERFORMANCE.md); the constants of a device of another size follow from its
 * sizes.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/tile/gpu/product.h"
#include "runtime/base/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ROW_BYTES = 128,     /* a row of a ring, which the swizzle permutes; a line of the cache */
    SECTOR_BYTES = 32,   /* the smallest part of a line that is copied */
    PARTS_STEPS_MIN = 3, /* steps of K for each part */
    PART_COLUMNS_MIN = 16,
    PART_COLUMNS_STEP = 8,
    TOGETHER_MAX = 8,
    GROUP_WARPS = 4, /* warps that execute one instruction of a matrix unit */
    COPY_BYTES = 16, /* if it does not divide rows of a buffer, threads copy them */
};

typedef struct device {
    uint32_t arch, multiprocessors, products; /* products: of 16 bits, per cycle */
    uint32_t at_a_time[TOGETHER_MAX]; /* blocks that run at the same time, if 1, 2, … blocks run
                                         together: blocks that run together share one part of the
                                         device, which leaves some of its multiprocessors unused */
    uint32_t shared_bytes;            /* limit of a block */
    uint32_t shared_total;            /* capacity of a multiprocessor */
    double memory_bytes;              /* bytes per cycle */
    uint32_t sums;                    /* of a thread at most; with two teams */
    uint32_t team_sums;
    uint32_t reserved; /* shared memory that a block cannot use: barriers, and the system's */
    uint32_t stages_min, stages_max;
    bool multiplies_f32; /* all bits of f32 */
} device;

enum { SUMS_OF_64 = 128, SUMS_OF_32 = 64, RDNA_SHARED_BYTES = 65536 };

/* The driver of an H200 reports the numbers of `at_a_time`. AMD GPUs have the vendor's figures of
 * amd.def; 0.85 is the fraction of the memory's bandwidth that an H200 reaches. */
static const device devices[] = {
    {80, 108, 1024, {108}, 166912, 167936, 1100, 64, 64, 2048, 3, 8, false},
    {90,
     132,
     2048,
     {132, 132, 117, 120, 110, 102, 0, 120},
     232448,
     233472,
     2400,
     128,
     192,
     2048,
     3,
     8,
     false},
#define X(name, arch_, generic, lanes, registers, registers_unit, waves, scalars, shared, unit,    \
          simds, units, mhz, matrix_16, matrix_f32, vector_f32, memory_gbs, ...)                   \
    {.arch = arch_,                                                                                \
     .multiprocessors = units,                                                                     \
     .products = (matrix_16) / 2,                                                                  \
     .at_a_time = {units},                                                                         \
     .shared_bytes = (lanes) == 64 ? (shared) : RDNA_SHARED_BYTES,                                 \
     .shared_total = shared,                                                                       \
     .memory_bytes = (mhz) ? 0.85 * 1000 * (memory_gbs) / ((mhz) + !(mhz)) : 0,                    \
     .sums = (lanes) == 64 ? SUMS_OF_64 : SUMS_OF_32,                                              \
     .stages_min = 2,                                                                              \
     .stages_max = 2,                                                                              \
     .multiplies_f32 = (matrix_f32) != 0},
#include "manifests/amd.def"
#undef X
};

/* Costs in cycles, rates in bytes per cycle; pairs are for A and for B. */
static const struct {
    double start, store, store_element, work_element;
    double work_thread; /* ops after the product, if a thread computes many elements */
    double store_byte;  /* each byte moved for an element, beyond a result of 16 bits */
    double copy, cache; /* rates: requested by one multiprocessor; delivered to each if all
                           request */
    double at_once;     /* factor of `cache` if all programs begin at once, share no copies, and
                           read the same whole lines at the same time */
    /* Factors for rows that are not whole lines: rows of whole sectors, and other rows. */
    double unaligned_copy[2][2], unaligned_cache[2][2];
    double unaligned_a;   /* extra part of A read from memory: two steps read a line */
    double segment;       /* a segment copied by threads, if rows do not begin at multiples of 16
                           bytes */
    double latency, hold; /* time to load a stage; products for which it is kept */
    double sum, exchange; /* programs that share K: time to start and wait; rate of exchange */
    double share, more;   /* programs that share copies: the same; extra time of more than two */
    double shared, round; /* factor of a copy if programs share it; extra time of each step */
    double both;          /* part of the shorter of computing and reading */
    double both_epilogue; /* the same for bytes moved after a product */
    double part;          /* part of the idle share of the last round that is saved */
    double well[5];       /* efficiency of products, by 64 columns */
    double crowded;       /* factor of `well` if sums leave a thread few registers */
    double exposed;       /* then, work of one team that products of the other do not hide */
    double apart;         /* the same if more than two share copies and wait for each other */
} cost = {.start = 7015,
          .store = 108.8,
          .store_element = 0.1124,
          .work_element = 0.01257,
          .work_thread = 2.867,
          .store_byte = 0.02608,
          .copy = 77.26,
          .cache = 48.57,
          .at_once = 1.9,
          .unaligned_copy = {{1.562, 2.198}, {1.305, 2.252}},
          .unaligned_cache = {{1.225, 1.194}, {1.136, 1.226}},
          .unaligned_a = 0.2436,
          .segment = 5,
          .latency = 1453,
          .hold = 2.028,
          .sum = 1323,
          .exchange = 10.51,
          .share = 1388,
          .more = 693.1,
          .shared = 1.223,
          .round = 15.17,
          .both = 0.2477,
          .both_epilogue = 0.4912,
          .part = 0.1341,
          .well = {0, 0.8195, 0.9141, 1.125, 1.15},
          .crowded = 1.018,
          .exposed = 0.009,
          .apart = 0.01852};

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
enum { TILES = TSR_COUNT(tiles) };

/* Tiles that are computed transposed; `rows` is their maximum. */
static const tsr_product_tile transposed_tiles[] = {
#define Y(columns_, warps_, teams_, registers_, rows_)                                             \
    {.rows = rows_,                                                                                \
     .columns = columns_,                                                                          \
     .warps = warps_,                                                                              \
     .teams = teams_,                                                                              \
     .registers = registers_,                                                                      \
     .parts = 1,                                                                                   \
     .transposed = true},
#include "compiler/tile/gpu/tiles.def"
#undef Y
};
enum {
    TRANSPOSED = TSR_COUNT(transposed_tiles),
    ROW_STEP = 8,
    ROWS_BY_THREADS = 16, /* multiple of rows if threads copy */
    ROWS_MAX = 256,
    ROW_STEPS = ROWS_MAX / ROW_STEP,
};

/* The ways in which programs may run together. */
static const struct {
    uint32_t parts, cluster_columns, cluster_rows;
} splits[] = {{1, 1, 1}, {2, 1, 1}, {3, 1, 1}, {4, 1, 1}, {5, 1, 1}, {6, 1, 1},
              {8, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 3, 1}, {1, 1, 3}, {1, 2, 2},
              {1, 4, 1}, {1, 1, 4}, {1, 4, 2}, {1, 2, 4}};
enum {
    SPLITS = TSR_COUNT(splits),
    CHOICES = (TILES + TRANSPOSED * ROW_STEPS) * SPLITS,
};

/* Returns the device with the target's instructions. mma.sync exists from sm_80 on, so other GPUs
 * of NVIDIA use the tiles of sm_80. */
static const device *find_device(const tsr_target *target) {
    if (!target->arch) return NULL;
    for (size_t i = 1; i < TSR_COUNT(devices); i++)
        if (devices[i].arch == target->arch) return &devices[i];
    return target->family == TSR_FAMILY_CUDA ? &devices[0] : NULL;
}

bool tsr_product_takes_f32(const tsr_target *target) {
    const device *d = find_device(target);
    return d && d->multiplies_f32;
}

static double least_of(double x, double y) { return x < y ? x : y; }
static double most_of(double x, double y) { return x > y ? x : y; }

/* Rows of tiles, rounded up to whole sets of programs that run together. */
static int64_t rows_of(const tsr_product_shape *shape, const tsr_product_tile *tile) {
    return tsr_divide_up(shape->m, tile->rows * tile->cluster_rows) * tile->cluster_rows;
}

static int64_t columns_of(const tsr_product_shape *shape, const tsr_product_tile *tile) {
    return tsr_divide_up(shape->n, tile->columns * tile->cluster_columns) * tile->cluster_columns;
}

static int64_t programs_of(const tsr_product_shape *shape, const tsr_product_tile *tile) {
    return rows_of(shape, tile) * columns_of(shape, tile) * shape->batch * tile->parts;
}

/* The number of programs that run at a time. */
static int64_t slots_of(const device *d, const tsr_product_tile *tile, int64_t blocks) {
    return d->at_a_time[tile->parts * tile->cluster_columns * tile->cluster_rows - 1] * blocks;
}

/* Shared memory of a block: the rings of stages, which programs that share K reuse to exchange
 * sums, and the ring of results. */
static int64_t shared_bytes(const tsr_product_tile *tile, const tsr_product_shape *shape,
                            uint32_t arch) {
    bool through = shape->by_rows && arch >= 90;
    int64_t depth_bytes = tile->depth * shape->element_bytes;
    int64_t stages = tile->stages * (tile->rows + tile->columns) * depth_bytes;
    int64_t exchange = tile->parts > 1 ? 4 * tile->rows * tile->columns : 0;
    int64_t lines = tile->transposed ? tile->columns : tile->rows;
    int64_t results = 2 * lines * ROW_BYTES * tile->teams;
    return (stages > exchange ? stages : exchange) + (through ? results : 0);
}

/* The blocks of a multiprocessor, limited only by their registers. */
static int64_t blocks_wanted(const tsr_product_tile *tile) {
    if (!tile->registers) return 1;
    return 65536 / ((32 * (int64_t)tile->warps + 128) * tile->registers);
}

static int64_t blocks_of(const device *d, const tsr_product_tile *tile, int64_t shared) {
    int64_t by_shared = d->shared_total / (shared + d->reserved);
    int64_t blocks = blocks_wanted(tile) < by_shared ? blocks_wanted(tile) : by_shared;
    return blocks < 1 ? 1 : blocks;
}

/* Plans as many stages as fit, with as many blocks as registers allow. */
static bool plan_stages(const device *d, const tsr_product_shape *shape, tsr_product_tile *tile) {
    int64_t capacity = d->shared_bytes - d->reserved, wanted = blocks_wanted(tile);
    if (wanted > 1) capacity = d->shared_total / wanted - d->reserved;
    for (tile->stages = d->stages_max; tile->stages >= d->stages_min; tile->stages--)
        if (shared_bytes(tile, shape, d->arch) <= capacity) return true;
    return false;
}

/* The sums of one thread. */
static int64_t sums_of(const tsr_product_tile *tile) {
    return tile->rows * tile->columns / (32 * (int64_t)tile->warps);
}

static bool is_crowded(const tsr_product_tile *tile) { return sums_of(tile) > 128; }

/* True if a thread's registers have space for its sums and their factors. */
static bool fits_registers(const device *d, const tsr_product_tile *tile) {
    return sums_of(tile) <= (tile->teams > 1 ? d->team_sums : d->sums);
}

static bool is_copied_whole(const tsr_product_shape *shape) {
    uint32_t size = shape->element_bytes;
    return shape->a_pitch * size % COPY_BYTES == 0 && shape->b_pitch * size % COPY_BYTES == 0;
}

/* True if the programs that run together can do so; all programs that share K must run at a
 * time. */
static bool fits_together(const device *d, const tsr_product_shape *shape,
                          const tsr_product_tile *tile) {
    int64_t columns = tile->transposed ? tile->rows : tile->columns;
    bool shares = tile->cluster_columns * tile->cluster_rows > 1;
    if (tile->parts == 1 && !shares) return true;
    if (d->arch != 90) return false;
    if (shares) return is_copied_whole(shape);
    return tile->teams == 1 && shape->k >= PARTS_STEPS_MIN * tile->depth * tile->parts &&
           columns % (PART_COLUMNS_STEP * tile->parts) == 0 &&
           columns / tile->parts >= PART_COLUMNS_MIN &&
           programs_of(shape, tile) <= slots_of(d, tile, 1);
}

static bool is_unaligned(const tsr_product_shape *shape, int64_t pitch) {
    return pitch * shape->element_bytes % ROW_BYTES != 0;
}

/* The cost factor of bytes in rows with this pitch. */
static double unaligned_of(const tsr_product_shape *shape, int64_t pitch, const double *costs) {
    if (!is_unaligned(shape, pitch)) return 1;
    return costs[pitch * shape->element_bytes % SECTOR_BYTES != 0];
}

/* The pieces that threads copy for each element of rows with this pitch; 0 if the copy engine
 * copies them. */
static double segments_of(const tsr_product_shape *shape, int64_t pitch) {
    int64_t bytes = COPY_BYTES;
    while (pitch * shape->element_bytes % bytes) bytes /= 2;
    return bytes == COPY_BYTES ? 0 : (double)shape->element_bytes / (double)bytes;
}

/* The result is hardly more than the greater of x and y: x slows some steps down, y others. */
static double joined(double x, double y) {
    double greater = most_of(x, y), rest = least_of(x, y) / greater;
    double square = rest * rest, fourth = square * square;
    return greater * sqrt(sqrt(sqrt(1 + fourth * fourth)));
}

/* True if all programs run at once, share no copies, and read rows that are whole lines. */
static bool begins_at_once(const device *d, const tsr_product_shape *shape,
                           const tsr_product_tile *tile) {
    if (is_unaligned(shape, shape->a_pitch) || is_unaligned(shape, shape->b_pitch)) return false;
    int64_t blocks = blocks_of(d, tile, shared_bytes(tile, shape, d->arch));
    return tile->cluster_columns * tile->cluster_rows == 1 &&
           programs_of(shape, tile) <= slots_of(d, tile, blocks);
}

/* The cycles of the copies of one step: the bytes that a program requests, and the share of the
 * second-level cache that all programs get. */
static double copy_time(const device *d, const tsr_product_shape *shape,
                        const tsr_product_tile *tile) {
    double row_bytes = (double)tile->depth * shape->element_bytes;
    double a = least_of((double)tile->rows, (double)shape->m) * row_bytes;
    double b = least_of((double)tile->columns, (double)shape->n) * row_bytes;
    double a_cache = (double)shape->m / (double)rows_of(shape, tile) * row_bytes;
    double b_cache = (double)shape->n / (double)columns_of(shape, tile) * row_bytes;
    double active = least_of((double)programs_of(shape, tile), d->multiprocessors);
    double cache = cost.cache * d->multiprocessors;
    if (begins_at_once(d, shape, tile)) cache *= cost.at_once;
    a *= unaligned_of(shape, shape->a_pitch, cost.unaligned_copy[0]);
    b *= unaligned_of(shape, shape->b_pitch, cost.unaligned_copy[1]);
    a_cache *= unaligned_of(shape, shape->a_pitch, cost.unaligned_cache[0]);
    b_cache *= unaligned_of(shape, shape->b_pitch, cost.unaligned_cache[1]);
    double threads = segments_of(shape, shape->a_pitch) * (double)tile->rows +
                     segments_of(shape, shape->b_pitch) * (double)tile->columns;
    if (tile->cluster_columns > 1)
        a *= cost.shared / tile->cluster_columns, a_cache *= cost.shared / tile->cluster_columns;
    if (tile->cluster_rows > 1)
        b *= cost.shared / tile->cluster_rows, b_cache *= cost.shared / tile->cluster_rows;
    return joined((a + b) / cost.copy, (a_cache + b_cache) * active / cache) +
           threads * (double)tile->depth * cost.segment;
}

/* The time of device memory to read the factors; epilogue_time adds the bytes that are moved after
 * the product. */
static double read_time(const device *d, const tsr_product_shape *shape) {
    double m = (double)shape->m, n = (double)shape->n, k = (double)shape->k;
    double a = is_unaligned(shape, shape->a_pitch) ? 1 + cost.unaligned_a : 1;
    return (m * k * a + k * n) * shape->element_bytes * (double)shape->batch / d->memory_bytes;
}

static double epilogue_time(const device *d, const tsr_product_shape *shape) {
    double elements = (double)shape->m * (double)shape->n * (double)shape->batch;
    return elements * shape->epilogue_bytes / d->memory_bytes;
}

static double multiply_time(const device *d, const tsr_product_shape *shape,
                            const tsr_product_tile *tile) {
    double rate = d->products * 2.0 / shape->element_bytes;
    int64_t lines = tile->transposed ? tile->columns : tile->rows;
    int64_t columns = tile->transposed ? tile->rows : tile->columns;
    if (lines < 128 && columns > 128) columns = 128;
    int64_t below = columns / 64;
    double well = cost.well[below], rest = (double)(columns % 64) / 64;
    if (rest > 0) well += rest * (cost.well[below + 1] - well);
    if (is_crowded(tile)) well *= cost.crowded;
    return (double)(tile->rows * tile->columns * tile->depth) / (rate * well);
}

/* The time of the ops and stores after a loop of products. */
static double store_time(const tsr_product_shape *shape, const tsr_product_tile *tile) {
    double area = (double)(tile->rows * tile->columns) / tile->parts;
    double more = cost.store_byte * ((double)shape->epilogue_bytes - 2);
    double work =
        most_of(area * cost.work_element, (double)sums_of(tile) / tile->parts * cost.work_thread);
    return cost.store + area * (cost.store_element + more) + work * shape->work;
}

/* The time in which programs that share K exchange sums: the sums of a thread are exchanged one
 * after the other. Fitted for at most 64 sums. */
static double exchange_time(const tsr_product_tile *tile) {
    double bytes = 4 * (double)(tile->rows * tile->columns);
    return bytes / cost.exchange * most_of(1, (double)sums_of(tile) / 64);
}

/* The part of one team's work that the products of the other team do not hide. */
static double exposed_of(const tsr_product_tile *tile) {
    if (tile->teams > 1 && tile->cluster_columns * tile->cluster_rows > 2) return cost.apart;
    return is_crowded(tile) ? cost.exposed : 0;
}

static double time_of(const device *d, const tsr_product_shape *shape,
                      const tsr_product_tile *tile) {
    int64_t programs = programs_of(shape, tile);
    int64_t blocks = blocks_of(d, tile, shared_bytes(tile, shape, d->arch));
    double resident = least_of((double)blocks, (double)tsr_divide_up(programs, d->multiprocessors));
    double steps = (double)tsr_divide_up(tsr_divide_up(shape->k, tile->depth), tile->parts);
    double multiply = multiply_time(d, shape, tile) * resident;
    double work = joined(multiply, copy_time(d, shape, tile) * resident);
    double wait = (cost.latency + cost.hold * multiply) / tile->stages;
    double round = tile->cluster_columns * tile->cluster_rows > 1 ? cost.round : 0;
    double loop = steps * (joined(work, wait) + round);
    double store = store_time(shape, tile);
    double share = (double)programs / (double)slots_of(d, tile, blocks);
    double rounds = (double)tsr_divide_up(programs, slots_of(d, tile, blocks));
    rounds -= cost.part * (rounds - most_of(share, 1));
    double all = rounds * (loop + store);
    if (tile->teams > 1) /* one team stores while the other one multiplies */
        all = rounds * loop + store + (rounds - 1) * most_of(0, store - loop) / 2;
    all += rounds * exposed_of(tile) * shape->work * (double)(tile->rows * tile->columns);
    if (tile->parts > 1) all += cost.sum + exchange_time(tile);
    if (tile->cluster_columns * tile->cluster_rows > 1) all += cost.share;
    if (tile->cluster_columns * tile->cluster_rows > 2) all += cost.more;
    double read = read_time(d, shape), epilogue = epilogue_time(d, shape);
    double both = cost.both * least_of(all, read) + cost.both_epilogue * least_of(all, epilogue);
    return cost.start + most_of(all, read + epilogue) + both;
}

/* Choice number `index`: a tile, and how programs run together. */
static bool make_choice(const device *d, const tsr_product_shape *shape, size_t index,
                        tsr_product_tile *tile) {
    size_t kind = index / SPLITS;
    *tile = kind < TILES ? tiles[kind] : transposed_tiles[(kind - TILES) / ROW_STEPS];
    if (kind >= TILES) {
        int64_t rows = ROW_STEP * (1 + (int64_t)((kind - TILES) % ROW_STEPS));
        if (!shape->may_transpose || rows > tile->rows || (shape->a_transposed && rows % 64) ||
            (rows % ROWS_BY_THREADS && !is_copied_whole(shape)))
            return false;
        tile->rows = rows;
    }
    tile->parts = splits[index % SPLITS].parts;
    tile->cluster_columns = splits[index % SPLITS].cluster_columns;
    tile->cluster_rows = splits[index % SPLITS].cluster_rows;
    tile->depth = ROW_BYTES / shape->element_bytes;
    if (tile->parts > 1) tile->registers = 0; /* only one block fits */
    return (d->arch == 90 || tile->teams == 1) && fits_registers(d, tile) &&
           fits_together(d, shape, tile) && plan_stages(d, shape, tile);
}

/* The number of last steps in which warp groups take turns. This time is 0 if the program waits for
 * copies, because warp groups would only wait longer. */
static uint32_t tail_of(const device *d, const tsr_product_shape *shape,
                        const tsr_product_tile *tile) {
    if (d->arch != 90 || tile->teams > 1 || tile->parts > 1 || tile->warps <= GROUP_WARPS ||
        tsr_divide_up(shape->k, tile->depth) < 2 * (int64_t)tile->stages ||
        multiply_time(d, shape, tile) < copy_time(d, shape, tile))
        return 0;
    return tile->stages - 1;
}

double tsr_product_time(const tsr_target *target, const tsr_product_shape *shape,
                        const tsr_product_tile *tile) {
    return time_of(find_device(target), shape, tile);
}

double tsr_product_move_time(const tsr_target *target, double bytes) {
    return bytes / find_device(target)->memory_bytes;
}

double tsr_product_copy_time(const tsr_target *target, double bytes) {
    return cost.start + tsr_product_move_time(target, 2 * bytes);
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
    out_tile->tail = tail_of(d, shape, out_tile);
    return true;
}

/* ---- tiles that a schedule gives ------------------------------------------------------------- */

enum { SIZES = 11, STAGES = 3 /* the index of this size */ };

void tsr_product_sizes(const tsr_product_tile *tile, int64_t *out_sizes) {
    const int64_t sizes[SIZES] = {tile->rows,       tile->columns,         tile->depth,
                                  tile->stages,     tile->warps,           tile->teams,
                                  tile->parts,      tile->cluster_columns, tile->cluster_rows,
                                  tile->transposed, tile->registers};
    memcpy(out_sizes, sizes, sizeof sizes);
}

size_t tsr_product_rank(const tsr_target *target, const tsr_product_shape *shape, size_t limit,
                        tsr_product_tile *out_tiles) {
    const device *d = find_device(target);
    size_t count = 0;
    for (size_t i = 0; d && i < CHOICES; i++) {
        tsr_product_tile tile;
        if (!make_choice(d, shape, i, &tile)) continue;
        double time = time_of(d, shape, &tile);
        size_t at = count < limit ? count++ : limit;
        while (at > 0 && time < time_of(d, shape, &out_tiles[at - 1])) {
            if (at < limit) out_tiles[at] = out_tiles[at - 1];
            at--;
        }
        if (at < limit) out_tiles[at] = tile;
    }
    return count;
}

/* True if the tile has the given sizes, except for the number of stages. */
static bool has_sizes(const tsr_product_tile *tile, const int64_t *given, bool exact) {
    int64_t sizes[SIZES];
    tsr_product_sizes(tile, sizes);
    for (int i = 0; i < SIZES; i++)
        if (i != STAGES && (exact || given[i]) && sizes[i] != given[i]) return false;
    return true;
}

/* The tile and the split of a choice, without the rules of the device. */
static tsr_product_tile describe_choice(const tsr_product_shape *shape, size_t index) {
    size_t kind = index / SPLITS;
    tsr_product_tile tile =
        kind < TILES ? tiles[kind] : transposed_tiles[(kind - TILES) / ROW_STEPS];
    if (kind >= TILES) tile.rows = ROW_STEP * (1 + (int64_t)((kind - TILES) % ROW_STEPS));
    tile.parts = splits[index % SPLITS].parts;
    tile.cluster_columns = splits[index % SPLITS].cluster_columns;
    tile.cluster_rows = splits[index % SPLITS].cluster_rows;
    tile.depth = ROW_BYTES / shape->element_bytes;
    if (tile.parts > 1) tile.registers = 0;
    return tile;
}

/* Writes the rule of the device that the tile breaks. */
static void explain_tile(const device *d, const tsr_product_shape *shape, tsr_product_tile *tile,
                         char *out_why) {
    if (d->arch != 90 && tile->teams > 1)
        snprintf(out_why, TSR_TILE_REFUSAL_MAX,
                 "teams is %u; expected 1: the device has no warp groups", tile->teams);
    else if (!fits_registers(d, tile))
        snprintf(out_why, TSR_TILE_REFUSAL_MAX,
                 "rows and columns give a thread %" PRId64
                 " sums; expected at most %u: its registers",
                 sums_of(tile), tile->teams > 1 ? d->team_sums : d->sums);
    else if (!plan_stages(d, shape, tile)) {
        tile->stages = d->stages_min;
        snprintf(out_why, TSR_TILE_REFUSAL_MAX,
                 "%u stages have %" PRId64
                 " bytes; expected at most %u: the shared memory of a block",
                 d->stages_min, shared_bytes(tile, shape, d->arch), d->shared_bytes - d->reserved);
    } else
        snprintf(out_why, TSR_TILE_REFUSAL_MAX,
                 "parts %u, cluster_columns %u, cluster_rows %u and transposed %d do not divide "
                 "this product among programs that run together",
                 tile->parts, tile->cluster_columns, tile->cluster_rows, tile->transposed);
}

static void explain(const device *d, const tsr_product_shape *shape, const int64_t *given,
                    char *out_why) {
    for (size_t i = 0; i < CHOICES; i++) {
        tsr_product_tile tile = describe_choice(shape, i);
        if (!has_sizes(&tile, given, false)) continue;
        explain_tile(d, shape, &tile, out_why);
        return;
    }
    snprintf(out_why, TSR_TILE_REFUSAL_MAX,
             "no kernel has a tile of %" PRId64 " rows, %" PRId64 " columns, depth %" PRId64
             ", %" PRId64 " warps, %" PRId64 " teams and %" PRId64
             " registers (0: any); compiler/tile/gpu/tiles.def lists the tiles",
             given[0], given[1], given[2], given[4], given[5], given[10]);
}

bool tsr_product_take(const tsr_target *target, const tsr_product_shape *shape,
                      const int64_t *given, bool exact, tsr_product_tile *out_tile, char *out_why) {
    const device *d = find_device(target);
    bool found = false;
    double least = 0;
    for (size_t i = 0; i < CHOICES; i++) {
        tsr_product_tile tile;
        if (!make_choice(d, shape, i, &tile) || !has_sizes(&tile, given, exact)) continue;
        double time = time_of(d, shape, &tile);
        if (found && time >= least) continue;
        found = true;
        least = time;
        *out_tile = tile;
    }
    if (!found) {
        explain(d, shape, given, out_why);
        return false;
    }
    if (given[STAGES] && (given[STAGES] < d->stages_min || given[STAGES] > out_tile->stages)) {
        snprintf(out_why, TSR_TILE_REFUSAL_MAX,
                 "stages is %" PRId64 "; expected %u to %u: the shared memory of a block",
                 given[STAGES], d->stages_min, out_tile->stages);
        return false;
    }
    if (given[STAGES]) out_tile->stages = (uint32_t)given[STAGES];
    out_tile->tail = tail_of(d, shape, out_tile);
    return true;
}
