/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/fuzz/origin.h"

#include "compiler/graph/graph.h"
#include "runtime/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- existing values ------------------------------------------------------------------------- */

static void add(origin_values *values, MlirValue value) {
    if (values->count == values->capacity) {
        values->items = tsr_grow(values->items, &values->capacity, 64, sizeof *values->items);
        TSR_ASSERT(values->items);
    }
    values->items[values->count++] = value;
}

static void add_block(origin_values *values, MlirBlock block, MlirOperation before) {
    for (intptr_t i = 0; i < mlirBlockGetNumArguments(block); i++)
        add(values, mlirBlockGetArgument(block, i));
    TSR_FOR_EACH_OP(op, block) {
        if (mlirOperationEqual(op, before)) break;
        for (size_t i = 0; i < tsr_op_result_count(op); i++) add(values, tsr_op_result(op, i));
    }
}

/* Ops whose regions are isolated from above. */
static bool is_isolated(MlirOperation op) {
    static const bool isolated[TSR_OP_COUNT] = {
        [TSR_BUILTIN_MODULE] = true, [TSR_FUNC_FUNC] = true,   [TSR_SCHED_FUNC] = true,
        [TSR_TILE_FUNC] = true,      [TSR_TARGET_FUNC] = true,
    };
    return isolated[tsr_op_of(op)];
}

void origin_values_find(origin_values *values, MlirOperation op) {
    values->count = 0;
    while (!is_isolated(op)) {
        MlirBlock block = mlirOperationGetBlock(op);
        if (mlirBlockIsNull(block)) return;
        add_block(values, block, op);
        op = mlirOperationGetParentOperation(op);
        if (mlirOperationIsNull(op)) return;
    }
}

void origin_values_finish(origin_values *values) {
    free(values->items);
    *values = (origin_values){0};
}

/* For a loop, the counter and the carried values are two origins. */
const char *origin_name(MlirValue value, char out_text[static ORIGIN_TEXT_MAX]) {
    if (!mlirValueIsABlockArgument(value)) {
        MlirOperation owner = mlirOpResultGetOwner(value);
        snprintf(out_text, ORIGIN_TEXT_MAX, "result of %s", tsr_op_name(owner));
        return out_text;
    }
    MlirOperation parent = mlirBlockGetParentOperation(mlirBlockArgumentGetOwner(value));
    bool counts = tsr_op_is(parent, TSR_SCF_FOR) && mlirBlockArgumentGetArgNumber(value) == 0;
    snprintf(out_text, ORIGIN_TEXT_MAX, "%s of %s", counts ? "counter" : "argument",
             tsr_op_name(parent));
    return out_text;
}

static void append(MlirStringRef part, void *user) {
    char *text = user;
    size_t used = strlen(text);
    snprintf(text + used, ORIGIN_TEXT_MAX - used, "%.*s", (int)part.length, part.data);
}

const char *origin_kind(MlirType type, char out_text[static ORIGIN_TEXT_MAX]) {
    const char *shape = mlirTypeIsAVector(type)   ? "vector of "
                        : mlirTypeIsAMemRef(type) ? "buffer of "
                        : mlirTypeIsATensor(type) ? "tensor of "
                                                  : "";
    snprintf(out_text, ORIGIN_TEXT_MAX, "%s", shape);
    if (*shape) type = mlirShapedTypeGetElementType(type);
    mlirTypePrint(type, append, out_text);
    if (!*shape) out_text[strcspn(out_text, "<")] = '\0';
    return out_text;
}

/* ---- values made for an operand -------------------------------------------------------------- */

typedef struct site {
    tsr_builder b; /* inserts before the op */
    MlirOperation op;
    size_t operand;
    MlirValue was;
    MlirType type;
} site;

static MlirValue make(site *p, const char *name, const MlirValue *operands, size_t count,
                      MlirType type, const tsr_attr *attrs) {
    return tsr_build_value(&p->b, name, operands, count, type, attrs);
}

static MlirValue make_attr(site *p, const char *name, const char *attr, MlirAttribute value) {
    return make(p, name, NULL, 0, p->type, (tsr_attr[]){{attr, value}, {0}});
}

static const MlirValue none = {NULL};

static bool is_whole(MlirType type) { return mlirTypeIsAInteger(type) || mlirTypeIsAIndex(type); }

static MlirType element_of(MlirType type) {
    return mlirTypeIsAShaped(type) ? mlirShapedTypeGetElementType(type) : type;
}

static MlirAttribute zero(MlirType type) {
    MlirType element = element_of(type);
    MlirAttribute value = mlirTypeIsAFloat(element)
                              ? mlirFloatAttrDoubleGet(mlirTypeGetContext(type), element, 0)
                          : is_whole(element) ? mlirIntegerAttrGet(element, 0)
                                              : (MlirAttribute){NULL};
    if (!mlirTypeIsAShaped(type) || mlirAttributeIsNull(value)) return value;
    if (mlirTypeIsAMemRef(type)) {
        int64_t dims[TSR_RANK_MAX], rank = mlirShapedTypeGetRank(type);
        for (int64_t i = 0; i < rank; i++) dims[i] = mlirShapedTypeGetDimSize(type, i);
        type = mlirRankedTensorTypeGet(rank, dims, element, mlirAttributeGetNull());
    }
    return mlirShapedTypeHasStaticShape(type) ? mlirDenseElementsAttrSplatGet(type, value)
                                              : (MlirAttribute){NULL};
}

static MlirValue make_constant(site *p, const char *name, bool fits) {
    MlirAttribute value = fits ? zero(p->type) : (MlirAttribute){NULL};
    return mlirAttributeIsNull(value) ? none : make_attr(p, name, "value", value);
}

static MlirValue number(site *p, int64_t value, MlirType type) {
    return make(p, "arith.constant", NULL, 0, type,
                (tsr_attr[]){{"value", mlirIntegerAttrGet(type, value)}, {0}});
}

static MlirValue truth(site *p) { return number(p, 1, mlirIntegerTypeGet(p->b.context, 1)); }

static MlirValue arith_constant(site *p) {
    return make_constant(p, "arith.constant", !mlirTypeIsAMemRef(p->type));
}

static MlirValue tile_constant(site *p) {
    return make_constant(p, "tile.constant", mlirTypeIsAMemRef(p->type));
}

static MlirValue tessera_constant(site *p) {
    return make_constant(p, "tessera.constant", mlirTypeIsATensor(p->type));
}

static MlirValue arith_select(site *p) {
    MlirValue operands[] = {truth(p), p->was, p->was};
    return make(p, "arith.select", operands, 3, p->type, NULL);
}

static MlirValue arith_sum(site *p) {
    MlirType element = element_of(p->type);
    MlirValue operands[] = {p->was, p->was};
    if (!mlirTypeIsAFloat(element) && !is_whole(element)) return none;
    return make(p, mlirTypeIsAFloat(element) ? "arith.addf" : "arith.addi", operands, 2, p->type,
                NULL);
}

static MlirRegion region_of(MlirBlock block) {
    MlirRegion region = mlirRegionCreate();
    mlirRegionAppendOwnedBlock(region, block);
    return region;
}

static MlirBlock yielding(site *p, const char *name, MlirValue value) {
    MlirBlock block = mlirBlockCreate(0, NULL, NULL);
    tsr_builder at = tsr_builder_at_end(block, p->b.location);
    tsr_build(&at, &(tsr_op_desc){.name = name, .operand_count = 1, .operands = &value});
    return block;
}

static MlirValue scf_if(site *p) {
    MlirValue condition = truth(p);
    MlirRegion regions[] = {region_of(yielding(p, "scf.yield", p->was)),
                            region_of(yielding(p, "scf.yield", p->was))};
    MlirOperation op = tsr_build(&p->b, &(tsr_op_desc){.name = "scf.if",
                                                       .operand_count = 1,
                                                       .operands = &condition,
                                                       .result_count = 1,
                                                       .results = &p->type,
                                                       .region_count = 2,
                                                       .regions = regions});
    return tsr_op_result(op, 0);
}

/* Makes a loop that carries the value; `block` is its body, still without a terminator. */
static MlirOperation loop(site *p, MlirBlock *out_block) {
    MlirType index = mlirIndexTypeGet(p->b.context), types[] = {index, p->type};
    MlirValue operands[] = {number(p, 0, index), number(p, 2, index), number(p, 1, index), p->was};
    MlirLocation locations[] = {p->b.location, p->b.location};
    *out_block = mlirBlockCreate(2, types, locations);
    MlirRegion region = region_of(*out_block);
    return tsr_build(&p->b, &(tsr_op_desc){.name = "scf.for",
                                           .operand_count = 4,
                                           .operands = operands,
                                           .result_count = 1,
                                           .results = &p->type,
                                           .region_count = 1,
                                           .regions = &region});
}

static void end_loop(site *p, MlirBlock block) {
    tsr_builder at = tsr_builder_at_end(block, p->b.location);
    MlirValue carried = mlirBlockGetArgument(block, 1);
    tsr_build(&at, &(tsr_op_desc){.name = "scf.yield", .operand_count = 1, .operands = &carried});
}

static MlirValue scf_for(site *p) {
    MlirBlock block;
    MlirOperation op = loop(p, &block);
    end_loop(p, block);
    return tsr_op_result(op, 0);
}

/* Puts a clone of the op into a loop; the clone reads the carried value. */
static MlirValue carried(site *p) {
    MlirBlock block;
    MlirOperation like = mlirOperationClone(p->op);
    loop(p, &block);
    mlirOperationSetOperand(like, (intptr_t)p->operand, mlirBlockGetArgument(block, 1));
    mlirBlockAppendOwnedOperation(block, like);
    end_loop(p, block);
    return p->was;
}

/* Calls a function that returns its argument; the function is added to the end of the module. */
static MlirValue call(site *p) {
    MlirOperation top = p->op;
    MlirLocation at = p->b.location;
    while (!mlirOperationIsNull(mlirOperationGetParentOperation(top)))
        top = mlirOperationGetParentOperation(top);
    MlirBlock block = mlirBlockCreate(1, &p->type, &at);
    tsr_builder inside = tsr_builder_at_end(block, at);
    MlirValue argument = mlirBlockGetArgument(block, 0);
    tsr_build(&inside,
              &(tsr_op_desc){.name = "func.return", .operand_count = 1, .operands = &argument});
    MlirRegion region = region_of(block);
    tsr_builder end = tsr_builder_at_end(tsr_op_body(top), at);
    MlirContext context = p->b.context;
    const tsr_attr attrs[] = {{"sym_name", tsr_attr_make_string(context, "origin")},
                              {"sym_visibility", tsr_attr_make_string(context, "private")},
                              {"function_type", tsr_attr_make_type(mlirFunctionTypeGet(
                                                    context, 1, &p->type, 1, &p->type))}};
    tsr_build(&end, &(tsr_op_desc){.name = "func.func",
                                   .attr_count = 3,
                                   .attrs = attrs,
                                   .region_count = 1,
                                   .regions = &region});
    return make(p, "func.call", &p->was, 1, p->type,
                (tsr_attr[]){{"callee", tsr_attr_make_symbol(context, "origin")}, {0}});
}

static MlirValue fill(site *p) {
    MlirType f32 = mlirF32TypeGet(p->b.context);
    MlirValue value =
        make(p, "arith.constant", NULL, 0, f32, (tsr_attr[]){{"value", zero(f32)}, {0}});
    return make(p, "tile.fill", &value, 1, p->type, NULL);
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { NUMBER = 1, VECTOR = 2, BUFFER = 4, TENSOR = 8, FRAGMENT = 16, RING = 32, TOKEN = 64 };
enum { VALUES = NUMBER | VECTOR, ANY = 127 };

static unsigned kind_of(MlirType type) {
    char text[ORIGIN_TEXT_MAX];
    if (mlirTypeIsAFloat(type) || is_whole(type)) return NUMBER;
    if (mlirTypeIsAVector(type)) return VECTOR;
    if (mlirTypeIsAMemRef(type)) return BUFFER;
    if (mlirTypeIsATensor(type)) return TENSOR;
    origin_kind(type, text);
    return strcmp(text, "!tile.fragment") == 0          ? FRAGMENT
           : strcmp(text, "!tile.shared") == 0          ? RING
           : strcmp(text, "!tessera_target.token") == 0 ? TOKEN
                                                        : 0;
}

/* Either a function, or an op that takes the value `operands` times and an attribute: a text or
 * else a number. */
static const struct {
    const char *name;
    unsigned kinds;
    MlirValue (*make)(site *p);
    size_t operands;
    const char *attr, *text;
    int64_t number;
} makers[] = {
    {.name = "arith.constant", .kinds = VALUES | TENSOR, .make = arith_constant},
    {.name = "arith.select", .kinds = ANY, .make = arith_select},
    {.name = "arith sum", .kinds = VALUES, .make = arith_sum},
    {.name = "math.exp", .kinds = VALUES, .operands = 1},
    {.name = "result of scf.if", .kinds = ANY, .make = scf_if},
    {.name = "result of scf.for", .kinds = ANY, .make = scf_for},
    {.name = "carried by scf.for", .kinds = ANY, .make = carried},
    {.name = "func.call", .kinds = TENSOR, .make = call},
    {.name = "tessera.constant", .kinds = TENSOR, .make = tessera_constant},
    {.name = "tessera.param", .kinds = TENSOR, .attr = "name", .text = "origin"},
    {.name = "tessera.neg", .kinds = TENSOR, .operands = 1},
    {.name = "tessera.max", .kinds = TENSOR, .operands = 2},
    {.name = "tsched.value", .kinds = TENSOR, .operands = 1},
    {.name = "tsched.unpack", .kinds = TENSOR, .operands = 1},
    {.name = "tessera_sr.barrier", .kinds = TENSOR, .operands = 1},
    {.name = "tessera_sr.vrank_sum", .kinds = TENSOR, .operands = 1},
    {.name = "tile.constant", .kinds = BUFFER, .make = tile_constant},
    {.name = "tile.local", .kinds = BUFFER},
    {.name = "tile.view", .kinds = BUFFER, .operands = 1},
    {.name = "tile.program_id", .kinds = NUMBER},
    {.name = "tile.program_end", .kinds = NUMBER},
    {.name = "tile.gelu", .kinds = VALUES, .operands = 1},
    {.name = "tile.butterfly", .kinds = VECTOR, .operands = 1, .attr = "distance", .number = 1},
    {.name = "tile.fill", .kinds = FRAGMENT, .make = fill},
    {.name = "tile.sum_programs", .kinds = FRAGMENT, .operands = 1},
    {.name = "tile.alloc_shared", .kinds = RING, .attr = "swizzle", .text = "xor"},
    {.name = "tessera_target.tensor", .kinds = BUFFER, .attr = "name", .text = "w"},
    {.name = "tessera_target.tensor_part", .kinds = BUFFER, .attr = "name", .text = "w"},
    {.name = "tessera_target.input", .kinds = BUFFER, .attr = "index"},
    {.name = "tessera_target.output", .kinds = BUFFER, .attr = "index"},
    {.name = "tessera_target.alloc", .kinds = BUFFER, .attr = "offset"},
    {.name = "tessera_target.prepacked", .kinds = BUFFER, .attr = "index"},
    {.name = "tessera_target.host_alloc", .kinds = BUFFER, .attr = "offset"},
    {.name = "tessera_target.vrank_alloc", .kinds = BUFFER, .attr = "offset"},
    {.name = "tessera_target.sum_alloc", .kinds = BUFFER, .attr = "offset"},
    {.name = "tessera_target.vrank_number", .kinds = BUFFER},
    {.name = "tessera_target.size", .kinds = BUFFER},
};

size_t origin_maker_count(void) { return TSR_COUNT(makers); }

const char *origin_maker_name(size_t maker) { return makers[maker].name; }

bool origin_may_make(size_t maker, MlirType type) {
    return (kind_of(type) & makers[maker].kinds) != 0;
}

static MlirValue make_plain(site *p, size_t maker) {
    const MlirValue operands[] = {p->was, p->was};
    MlirContext context = p->b.context;
    tsr_attr attrs[2] = {{0}};
    if (makers[maker].attr)
        attrs[0] =
            (tsr_attr){makers[maker].attr, makers[maker].text
                                               ? tsr_attr_make_string(context, makers[maker].text)
                                               : tsr_attr_make_i64(context, makers[maker].number)};
    return make(p, makers[maker].name, operands, makers[maker].operands, p->type, attrs);
}

bool origin_make(size_t maker, MlirOperation op, size_t operand) {
    site p = {.b = tsr_builder_before(op),
              .op = op,
              .operand = operand,
              .was = tsr_op_operand(op, operand)};
    p.type = mlirValueGetType(p.was);
    if (!origin_may_make(maker, p.type)) return false;
    MlirValue value = makers[maker].make ? makers[maker].make(&p) : make_plain(&p, maker);
    if (mlirValueIsNull(value)) return false;
    mlirOperationSetOperand(op, (intptr_t)operand, value);
    return true;
}
