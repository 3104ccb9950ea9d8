/* SPDX-License-Identifier: Apache-2.0
 *
 * The division of a product: tiles, blocks of rows and of K, panels, programs.
 */
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/schedule.h"
#include "compiler/tile/products/matmul.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    BLOCK_ROWS_MAX = 256,              /* rows of a program */
    PACKED_ROWS_MAX = 512,             /* rows of a program that packs B, ... */
    PACKED_FLOPS = 4 * 1000 * 1000,    /* ... or half as many, if this work remains */
    PANEL_BYTES = 192 * 1024,          /* a block of B on the stack */
    SCRATCH_BYTES = 96 * 1024,         /* partial sums */
    LOCAL_BYTES = 1024 * 1024 - 65536, /* all data on the stack, except ... */
    SLOTS_BYTES = 512 * 1024,          /* ... further slots of partial sums, which use the rest */
    A_ROW_BYTES = 4096,                /* a row of A on the stack, if it is whole; else: */
    A_PART_BYTES = 2048,
    DIRECT_BYTES = 32 * 1024,     /* a B up to this size fits the first-level cache well */
    STREAM_BYTES = 256 * 1024,    /* a B from this size on is streamed if rows are few */
    FAR_BYTES = 6 * 1024 * 1024,  /* parts of B between returns to them: they stay in the
                                     third-level cache */
    A_PANELS_LEAST = 2,           /* panels that pay for packing A */
    A_SCRATCH_BYTES = 480 * 1024, /* partial sums next to a block of A on the stack */
    A_COST = 20, /* to pack an element of A or B, in multiplications: measured on a Zen 3 */
    B_COST = 8,
    PROGRAMS_WANTED = 16,       /* if A is packed: fewer programs could leave processors idle */
    PROGRAM_BYTES = 512 * 1024, /* B of a program with few rows, if B is large enough */
    ASKING_PART = 4,            /* fraction of a block's tiles that prefetch the next panel, ... */
    ASKING_TILES = 16,          /* ... at least this number, ... */
    ASKING_LEAST = 8,           /* ... if there are at least this number of tiles */
    BETWEEN_LEAST = 2,          /* steps of k between vectors of an epilogue */
    OPEN_ROWS_MAX = 8,          /* rows of a tile if there is a tile of each height */
};
static_assert(LOCAL_BYTES + SLOTS_BYTES + 65536 <= TSR_TARGET_STACK_MAX,
              "all stack buffers fit the stack");
static_assert(PANEL_BYTES + SCRATCH_BYTES <= LOCAL_BYTES &&
                  PANEL_BYTES + A_SCRATCH_BYTES <= LOCAL_BYTES / 4 * 3,
              "the local buffers fit the stack, and leave room for A");

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static int64_t most(int64_t x, int64_t y) { return x > y ? x : y; }

/* Takes the sizes that the schedule gives; 0: the model chooses. */
static void take_sizes(tsr_matmul *mm) {
    memcpy(&mm->asked, mm->group->given, sizeof mm->asked);
    mm->size = mm->asked;
}

static int64_t b_bytes(const tsr_matmul *mm) { return mm->n * mm->k * tsr_matmul_element_size(mm); }

static tsr_gemm_shape shape_of(const tsr_matmul *mm) {
    int64_t size = tsr_matmul_element_size(mm);
    bool any = mm->unit > 1 || mm->transposed; /* small tiles of short loops make these slower */
    return (tsr_gemm_shape){.element_bytes = size,
                            .m = mm->m,
                            .n = mm->n,
                            .k = any ? 0 : mm->k,
                            .exact = mm->asked.width,
                            .rows_max = mm->open_rows ? OPEN_ROWS_MAX : 0,
                            .strip = mm->strip,
                            .far = !mm->strip && !mm->b_transposed && mm->unit == 1 && mm->m > 1 &&
                                   b_bytes(mm) > tsr_gemm_second_level(mm->group->b.target),
                            .row_bytes = mm->a_row == 1 ? 0 : mm->a_row * size / mm->unit};
}

/* The maximum rows of a tile of this width, and why. */
static int64_t rows_limit(const tsr_matmul *mm, const char **out_why) {
    int64_t rows = mm->group->b.target->matmul_rows[mm->vectors - 1];
    *out_why = "the sums of a tile are in registers";
    if (mm->transposed && mm->lanes < rows) {
        rows = mm->lanes;
        *out_why = "a transposed tile is a square of vectors";
    }
    if (mm->open_rows && OPEN_ROWS_MAX < rows) {
        rows = OPEN_ROWS_MAX;
        *out_why = "an open number of rows needs a tile of each height";
    }
    if (mm->m < rows) {
        rows = mm->m;
        *out_why = "the product has no more rows";
    }
    return rows;
}

static bool plan_tile(tsr_matmul *mm) {
    const tsr_gemm_shape shape = shape_of(mm);
    const char *why = NULL;
    int64_t rows = 1;
    tsr_gemm_plan_tile(mm->group->b.target, &shape, &mm->lanes, &mm->vectors, &rows);
    mm->size.width = (int64_t)mm->lanes * mm->vectors;
    if (mm->asked.width && mm->size.width != mm->asked.width)
        return tsr_tile_refuse(mm->group,
                               "width is %" PRId64 "; expected whole vectors of %u elements, at "
                               "most %d, for which the target has registers%s",
                               mm->asked.width, tsr_gemm_vector(mm->group->b.target, &shape),
                               TSR_TILE_VECTORS_MAX,
                               mm->strip ? ", that divide a strip or are a multiple of it" : "");
    mm->panels = tsr_divide_up(mm->n, mm->size.width);
    if (!mm->size.rows) mm->size.rows = rows;
    if (mm->transposed && !mm->asked.rows) mm->size.rows = least(mm->size.rows, mm->lanes);
    int64_t limit = rows_limit(mm, &why);
    if (!mm->asked.rows || mm->asked.rows <= limit) return true;
    return tsr_tile_refuse(mm->group, "rows is %" PRId64 "; expected at most %" PRId64 ": %s",
                           mm->asked.rows, limit, why);
}

static void plan_packing(tsr_matmul *mm) {
    const tsr_target *target = mm->group->b.target;
    bool changes = mm->unit > 1 || (mm->b.dtype != mm->compute &&
                                    !mm->words.is); /* better once than in each tile */
    bool large =
        (b_bytes(mm) > DIRECT_BYTES && mm->n != mm->size.width) || (changes && !target->warp_lanes);
    bool plain = !target->warp_lanes && !changes && mm->a_row != 1;
    int64_t rows = 2 * mm->size.rows; /* maximum that reads B in place */
    if (plain) rows = most(rows, tsr_gemm_direct_rows(target, mm->n * tsr_matmul_element_size(mm)));
    mm->b_packed = !mm->strip && (mm->b_transposed || (large && mm->m > rows));
    mm->b_streamed = !mm->b_packed && !mm->strip && b_bytes(mm) > STREAM_BYTES && mm->panels > 1;
    mm->asks = mm->b_streamed && plain && mm->m > 1 && !mm->open_rows;
    mm->a_packed = !target->warp_lanes && mm->a_row == 1 && !mm->open_rows &&
                   ((mm->size.rows > 1 && mm->panels > A_PANELS_LEAST) || mm->unit > 1);
}

int64_t tsr_matmul_slots(const tsr_matmul *mm) {
    return mm->chunks ? tsr_product_slots(mm->chunks) + !mm->chunks_by_tiles : 1;
}

/* The size of a slot of partial sums in bytes. */
static int64_t scratch_bytes(const tsr_matmul *mm) {
    int64_t bytes = mm->a_packed ? A_SCRATCH_BYTES : SCRATCH_BYTES, slots = tsr_matmul_slots(mm);
    int64_t all = (mm->a_packed ? A_SCRATCH_BYTES : LOCAL_BYTES - PANEL_BYTES) + SLOTS_BYTES;
    return slots > 1 ? least(bytes, all / slots) : bytes;
}

/* Plans blocks of a long K: whole chunks, or parts of one, whose number is a power of two. A
 * program with a single block of K computes its chunks tile by tile. */
static void plan_chunks(tsr_matmul *mm, int64_t limit) {
    int64_t block = TSR_PRODUCT_CHUNK;
    mm->chunks = tsr_product_chunks(mm->k);
    while (block > limit && block > 1) block /= 2;
    while (2 * block <= limit && block >= TSR_PRODUCT_CHUNK) block *= 2;
    mm->size.k_block = limit >= mm->k ? mm->k : block;
    mm->chunks_by_tiles = mm->size.k_block >= TSR_PRODUCT_CHUNK;
}

static bool check_k(const tsr_matmul *mm, int64_t unit, bool is_long) {
    int64_t asked = mm->asked.k_block, width_bytes = mm->size.width * tsr_matmul_element_size(mm);
    if (asked > mm->k)
        return tsr_tile_refuse(mm->group,
                               "block_k is %" PRId64 "; expected at most %" PRId64
                               ": the product has no more steps",
                               asked, mm->k);
    if (mm->b_packed && asked > PANEL_BYTES / width_bytes)
        return tsr_tile_refuse(mm->group,
                               "block_k is %" PRId64 "; expected at most %" PRId64
                               ": a packed panel of B has at most %d bytes on the stack",
                               asked, PANEL_BYTES / width_bytes, PANEL_BYTES);
    if (is_long && mm->size.k_block != asked)
        return tsr_tile_refuse(mm->group,
                               "block_k is %" PRId64
                               "; expected %d times or divided by a power of two, or all %" PRId64
                               " steps: the order of long sums is fixed",
                               asked, TSR_PRODUCT_CHUNK, mm->k);
    if (asked < mm->k && asked % unit)
        return tsr_tile_refuse(mm->group,
                               "block_k is %" PRId64 "; expected a multiple of %" PRId64
                               ": B is packed in squares of vectors",
                               asked, unit);
    return true;
}

static bool plan_k(tsr_matmul *mm) {
    int64_t size = tsr_matmul_element_size(mm), limit = mm->k;
    if (mm->b_packed || mm->strip) limit = PANEL_BYTES / (mm->size.width * size);
    if (mm->a_packed)
        limit = least(limit, (mm->k * size > A_ROW_BYTES ? A_PART_BYTES : A_ROW_BYTES) / size);
    if (mm->b_streamed)
        limit = tsr_gemm_streamed_rows(mm->group->b.target, mm->m, mm->n * size,
                                       mm->size.width * size, mm->asks);
    if (mm->asked.k_block) limit = mm->asked.k_block;
    /* Packing a transpose works on whole squares. */
    int64_t unit = mm->b_packed ? mm->lanes : 1;
    bool is_long = mm->unit == 1 && !mm->words.is && tsr_product_is_long(mm->k);
    if (is_long)
        plan_chunks(mm, limit);
    else
        mm->size.k_block = mm->asked.k_block ? limit : tsr_gemm_part(mm->k, limit, unit);
    mm->k_blocks = most(tsr_divide_up(mm->k, most(mm->size.k_block, 1)), 1);
    return !mm->asked.k_block || check_k(mm, unit, is_long);
}

int64_t tsr_matmul_packed_tile(const tsr_matmul *mm) {
    return tsr_gemm_tile_size(mm->compute, mm->size.rows, mm->size.k_block);
}

/* The number of rows of A that fit the stack together with a panel of B and partial sums. */
static int64_t packed_rows(const tsr_matmul *mm) {
    int64_t panel = mm->b_packed ? (mm->size.k_block + mm->lanes) * mm->size.width : 0;
    int64_t bytes = LOCAL_BYTES - panel * tsr_matmul_element_size(mm);
    if (mm->k_blocks > 1) bytes -= A_SCRATCH_BYTES; /* further slots come after LOCAL_BYTES */
    return bytes / (tsr_matmul_packed_tile(mm) * tsr_matmul_element_size(mm)) * mm->size.rows;
}

/* A program packs its block of A once, and each panel of B for this block. The cost of both,
 * divided by the multiplications that they serve, is least with as many programs as wanted. */
static void plan_packed_blocks(const tsr_matmul *mm, int64_t *out_rows, int64_t *out_panels) {
    const tsr_matmul_sizes *s = &mm->size;
    double flops = 2.0 * (double)mm->m * (double)mm->n * (double)mm->k, best = INFINITY;
    double program_flops = (double)tsr_matmul_program_flops(mm);
    int64_t wanted = flops > (double)PROGRAMS_WANTED * program_flops
                         ? PROGRAMS_WANTED
                         : (int64_t)(flops / program_flops) + 1;
    for (int64_t parts = 1; parts <= mm->panels; parts++) {
        int64_t panels = tsr_divide_up(mm->panels, parts), columns = panels * s->width;
        int64_t rows = least(packed_rows(mm), tsr_divide_up(mm->m, tsr_divide_up(wanted, parts)));
        if (mm->k_blocks > 1)
            rows = least(rows, scratch_bytes(mm) / (columns * tsr_matmul_element_size(mm)));
        double cost = A_COST / (double)columns;
        if (cost >= best) break;
        if (mm->b_packed) cost += B_COST / (double)most(rows, 1);
        if (cost >= best || rows < least(s->rows, mm->m)) continue;
        best = cost;
        *out_rows = rows;
        *out_panels = panels;
    }
}

/* The number of rows of a program that packs B: as many as make packing profitable. However, if
 * there are few programs, and their number is odd, the last one would run while other processors
 * are idle. */
static int64_t packed_b_rows(const tsr_matmul *mm) {
    int64_t programs = tsr_divide_up(mm->m, PACKED_ROWS_MAX) * mm->panels;
    double flops = (double)PACKED_ROWS_MAX * (double)mm->size.width * (double)mm->k;
    bool uneven = programs < PROGRAMS_WANTED && programs % 2 == 1 && flops >= PACKED_FLOPS;
    return uneven ? PACKED_ROWS_MAX / 2 : PACKED_ROWS_MAX;
}

/* Reduces the rows of a program if each block of rows reads B in place, until there are as many
 * programs as wanted: few programs cannot be distributed evenly over processors. */
static void plan_more_blocks(tsr_matmul *mm) {
    tsr_matmul_sizes *s = &mm->size;
    double flops = 2.0 * (double)mm->m * (double)mm->n * (double)mm->k;
    double wanted = fmin(flops / (double)tsr_matmul_program_flops(mm), PROGRAMS_WANTED);
    int64_t parts = tsr_divide_up(mm->panels, s->program_panels) * mm->batch;
    int64_t blocks = (int64_t)(wanted / (double)parts);
    if (mm->group->b.target->warp_lanes || mm->a_packed || mm->b_packed || mm->b_streamed) return;
    if (blocks > tsr_divide_up(mm->m, s->block_rows))
        s->block_rows = tsr_gemm_part(mm->m, most(mm->m / blocks, s->rows), s->rows);
}

/* The maximum rows of a program that the stack has capacity for. */
static int64_t block_rows_fit(const tsr_matmul *mm) {
    int64_t fit = INT64_MAX;
    if (mm->k_blocks > 1)
        fit = tsr_round_up(scratch_bytes(mm) / (mm->size.width * tsr_matmul_element_size(mm)),
                           mm->size.rows);
    return mm->a_packed ? least(fit, packed_rows(mm)) : fit;
}

static bool check_block_rows(const tsr_matmul *mm) {
    int64_t asked = mm->asked.block_rows, fit = block_rows_fit(mm);
    if (asked > mm->m)
        return tsr_tile_refuse(mm->group,
                               "block_rows is %" PRId64 "; expected at most %" PRId64
                               ": the product has no more rows",
                               asked, mm->m);
    if (asked < mm->m && asked % mm->size.rows)
        return tsr_tile_refuse(mm->group,
                               "block_rows is %" PRId64 "; expected a multiple of rows, %" PRId64,
                               asked, mm->size.rows);
    if (asked <= fit) return true;
    return tsr_tile_refuse(mm->group,
                           "block_rows is %" PRId64 "; expected at most %" PRId64
                           ": packed rows of A and partial sums are on the stack",
                           asked, fit);
}

static bool check_panels(const tsr_matmul *mm) {
    int64_t asked = mm->asked.program_panels;
    if (!asked || asked == mm->size.program_panels) return true;
    return tsr_tile_refuse(mm->group,
                           "program_panels is %" PRId64 "; expected at most %" PRId64 ": %s", asked,
                           mm->size.program_panels,
                           asked > mm->panels ? "the product has no more panels"
                                              : "partial sums of a program are on the stack");
}

static bool plan_blocks(tsr_matmul *mm) {
    tsr_matmul_sizes *s = &mm->size;
    int64_t size = tsr_matmul_element_size(mm), k = most(s->k_block, 1), unit = s->rows;
    int64_t cache = tsr_gemm_second_level(mm->group->b.target) * 4 / 5;
    int64_t scratch = scratch_bytes(mm);
    /* To pack B for many rows saves more time than to keep their part of A in the cache. */
    int64_t limit = least((cache - s->width * k * size) / (k * size), BLOCK_ROWS_MAX), wanted = 1;
    if (mm->b_packed) limit = packed_b_rows(mm);
    if (mm->asks) limit = BLOCK_ROWS_MAX; /* B is read only once */
    if (mm->a_packed) plan_packed_blocks(mm, &limit, &wanted);
    if (mm->k_blocks > 1) limit = least(limit, scratch / (s->width * size));
    bool given = mm->asked.block_rows > 0;
    if (given && !check_block_rows(mm)) return false;
    if (mm->a_packed) {
        limit = least(limit, packed_rows(mm));
        if (limit > 4 * unit * TSR_GEMM_TILES_TOGETHER) unit *= TSR_GEMM_TILES_TOGETHER;
        limit = limit / unit * unit;
    }
    if (!given) s->block_rows = tsr_gemm_part(mm->m, most(limit, s->rows), unit);
    double elements = (double)s->width * (double)mm->k + 1; /* elements of B in a panel */
    double panels = (double)tsr_matmul_program_flops(mm) / (2.0 * (double)s->block_rows * elements);
    /* Reading B takes the time if there are few rows, and each processor reads a part. */
    if (!mm->group->b.target->warp_lanes)
        panels = fmin(panels, PROGRAM_BYTES / (elements * (double)size));
    if (panels > (double)wanted)
        wanted = panels > (double)mm->panels ? mm->panels : (int64_t)panels;
    if (mm->b_streamed && mm->k_blocks > 1)
        wanted = most(wanted, tsr_gemm_run_panels(mm->panels, mm->n * size, mm->m));
    if (s->program_panels) wanted = s->program_panels;
    if (mm->k_blocks > 1) wanted = least(wanted, scratch / (s->block_rows * s->width * size));
    s->program_panels = least(most(wanted, 1), mm->panels);
    if (!given) plan_more_blocks(mm);
    mm->panels_at_once = s->program_panels;
    mm->at_once = mm->b_streamed && !mm->group->b.target->warp_lanes && mm->k_blocks > 1 &&
                  mm->m <= s->block_rows && mm->batch == 1 && s->program_panels < mm->panels &&
                  !mm->open_rows;
    wanted = most(scratch / (s->block_rows * s->width * size), s->program_panels);
    if (mm->at_once) mm->panels_at_once = least(wanted, mm->panels);
    int64_t parts = tsr_divide_up(mm->panels, s->program_panels);
    int64_t part_bytes = s->program_panels * s->width * mm->k * size;
    mm->far_parts = parts;
    if (b_bytes(mm) > FAR_BYTES && mm->m > s->block_rows && !mm->open_rows)
        mm->far_parts = tsr_gemm_part(parts, FAR_BYTES / most(part_bytes, 1), 1);
    return check_panels(mm);
}

/* The first tile of a panel reads B in place, and packs it while it multiplies. The last tiles
 * prefetch the next panel: if earlier ones did, A would evict it from the second-level cache
 * again. */
static void plan_ahead(tsr_matmul *mm) {
    const tsr_matmul_sizes *s = &mm->size;
    int64_t last = mm->m % s->block_rows, tiles = s->block_rows / s->rows;
    if (!mm->b_packed || mm->b_transposed || mm->open_rows || mm->group->b.target->warp_lanes)
        return;
    mm->packs = (last ? last : s->block_rows) >= s->rows;
    if (mm->panels > 1 && tiles >= ASKING_LEAST)
        mm->asking_tiles = most(tiles / ASKING_PART, least(tiles, ASKING_TILES));
}

/* An epilogue that reads many operands in addition to the product waits for memory and for its own
 * chain, which may contain divisions. Multiplications of the next tile hide both, if there are
 * enough multiplications and registers. */
static void plan_epilogue(tsr_matmul *mm) {
    const tsr_matmul_sizes *s = &mm->size;
    int64_t steps = (mm->depth - (mm->k_blocks - 1) * s->k_block * mm->unit) / mm->unit;
    mm->between = steps / (s->rows * mm->vectors);
    mm->defers =
        tsr_gemm_has_registers(mm->group->b.target) && !mm->transposed && !mm->open_rows &&
        !mm->chunks && s->block_rows >= 2 * s->rows && mm->between >= BETWEEN_LEAST &&
        tsr_epilogue_large_operands(&mm->after, &mm->space) >= TSR_EPILOGUE_OPERANDS_LEAST &&
        !tsr_epilogue_computes(&mm->after);
}

bool tsr_matmul_plan(tsr_matmul *mm) {
    take_sizes(mm);
    if (!plan_tile(mm)) return false;
    plan_packing(mm);
    if (!plan_k(mm) || !plan_blocks(mm)) return false;
    plan_ahead(mm);
    plan_epilogue(mm);
    memcpy(mm->group->tile, &mm->size, sizeof mm->size);
    mm->group->tile_count = TSR_MATMUL_SIZES;
    return true;
}
