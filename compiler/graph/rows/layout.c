/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic of row layouts. All functions go from the innermost factor outward, since the indices
 * of two lists of factors are aligned at the innermost factors.
 */
#include "compiler/graph/rows/layout.h"

#include <string.h>

tsr_row_layout tsr_row_layout_of(uint64_t size, tsr_row_label label) {
    tsr_row_layout layout = {0};
    if (size > 1)
        layout = (tsr_row_layout){.count = 1, .factors = {{.size = size, .label = label}}};
    return layout;
}

/* True if the two are one factor, `outer` around `inner`. */
static bool merges(const tsr_row_factor *outer, const tsr_row_factor *inner) {
    if (outer->label != inner->label) return false;
    return outer->label != TSR_ROW_DIGIT || outer->stride == inner->stride * inner->size;
}

static bool push(tsr_row_layout *layout, tsr_row_factor inner) {
    tsr_row_factor *last = layout->count ? &layout->factors[layout->count - 1] : NULL;
    if (inner.size <= 1) return true;
    if (last && merges(last, &inner)) {
        last->size *= inner.size;
        last->stride = inner.stride;
        return true;
    }
    if (layout->count == TSR_ROW_FACTORS_MAX) return false;
    layout->factors[layout->count++] = inner;
    return true;
}

bool tsr_row_append(tsr_row_layout *layout, const tsr_row_layout *inner) {
    for (uint32_t i = 0; i < inner->count; i++)
        if (!push(layout, inner->factors[i])) return false;
    return true;
}

bool tsr_row_merge(const tsr_row_dims *dims, tsr_row_layout *out_layout) {
    tsr_row_layout layout = {0};
    for (uint32_t i = 0; i < dims->rank; i++)
        if (!tsr_row_append(&layout, &dims->dims[i])) return false;
    *out_layout = layout;
    return true;
}

/* ---- taking factors off ---------------------------------------------------------------------- */

/* Reads the factors of a layout from the innermost one on; `next` is the rest of the current
 * factor. */
typedef struct reader {
    const tsr_row_layout *layout;
    uint32_t left; /* factors outside `next` */
    tsr_row_factor next;
} reader;

static void load(reader *r) {
    r->next = (tsr_row_factor){.size = 1};
    if (r->left) r->next = r->layout->factors[--r->left];
}

static reader read(const tsr_row_layout *layout) {
    reader r = {.layout = layout, .left = layout->count};
    load(&r);
    return r;
}

/* Removes the inner `size` of the next factor, which `size` divides. */
static tsr_row_factor take_factor(reader *r, uint64_t size) {
    tsr_row_factor inner = r->next;
    inner.size = size;
    r->next.size /= size;
    if (r->next.label == TSR_ROW_DIGIT) r->next.stride *= size;
    if (r->next.size == 1) load(r);
    return inner;
}

/* Merges the next factor with the one around it; the result varies. False if either is a digit.
 */
static bool widen(reader *r) {
    tsr_row_factor inner = r->next;
    if (r->left == 0) return false;
    load(r);
    if (inner.label == TSR_ROW_DIGIT || r->next.label == TSR_ROW_DIGIT) return false;
    r->next = (tsr_row_factor){.size = inner.size * r->next.size, .label = TSR_ROW_VARIES};
    return true;
}

/* Collects factors from the innermost one outward. */
typedef struct writer {
    uint32_t count;
    tsr_row_factor factors[2 * TSR_ROW_FACTORS_MAX];
} writer;

static bool write(writer *w, tsr_row_factor outer) {
    if (w->count == 2 * TSR_ROW_FACTORS_MAX) return false;
    w->factors[w->count++] = outer;
    return true;
}

static bool finish(const writer *w, tsr_row_layout *out_layout) {
    out_layout->count = 0;
    for (uint32_t i = w->count; i-- > 0;)
        if (!push(out_layout, w->factors[i])) return false;
    return true;
}

static bool split_dim(reader *r, uint64_t size, tsr_row_layout *out_dim) {
    writer w = {0};
    while (size > 1) {
        uint64_t has = r->next.size;
        if (has > 1 && size % has == 0) {
            if (!write(&w, take_factor(r, has))) return false;
            size /= has;
        } else if (has % size == 0) {
            if (!write(&w, take_factor(r, size))) return false;
            size = 1;
        } else if (!widen(r)) {
            return false;
        }
    }
    return finish(&w, out_dim);
}

bool tsr_row_split(const tsr_row_layout *layout, const tsr_shape *shape, tsr_row_dims *out_dims) {
    reader r = read(layout);
    uint64_t count = 0;
    bool known = tsr_shape_count(shape, &count) && count > 0;
    out_dims->rank = shape->rank;
    for (uint32_t i = shape->rank; i-- > 0;) {
        if (!known)
            out_dims->dims[i] = tsr_row_layout_of(shape->dims[i], TSR_ROW_SAME);
        else if (!split_dim(&r, shape->dims[i], &out_dims->dims[i]))
            return false;
    }
    return true;
}

/* ---- joining --------------------------------------------------------------------------------- */

static tsr_row_fault join_factors(tsr_row_factor a, tsr_row_factor b, tsr_row_factor *out) {
    bool x = a.label == TSR_ROW_DIGIT, y = b.label == TSR_ROW_DIGIT;
    if (x && y && a.stride != b.stride) return TSR_ROW_PAIRED;
    if ((x && b.label == TSR_ROW_VARIES) || (y && a.label == TSR_ROW_VARIES))
        return TSR_ROW_NUMBERED;
    *out = x ? a : b;
    if (!x && !y && a.label == TSR_ROW_VARIES) out->label = TSR_ROW_VARIES;
    return TSR_ROW_FINE;
}

/* The fault if the sizes of two factors do not divide one another. */
static tsr_row_fault refuse(const reader *a, const reader *b) {
    bool both = a->next.label == TSR_ROW_DIGIT && b->next.label == TSR_ROW_DIGIT;
    return both ? TSR_ROW_PAIRED : TSR_ROW_NUMBERED;
}

tsr_row_fault tsr_row_join(const tsr_row_layout *a, const tsr_row_layout *b,
                           tsr_row_layout *out_layout) {
    reader x = read(a), y = read(b);
    writer w = {0};
    while (x.next.size > 1 && y.next.size > 1) {
        uint64_t p = x.next.size, q = y.next.size, size = p < q ? p : q;
        tsr_row_factor joined;
        if (p % size || q % size) {
            if (!widen(p < q ? &x : &y)) return refuse(&x, &y);
            continue;
        }
        tsr_row_fault fault = join_factors(take_factor(&x, size), take_factor(&y, size), &joined);
        if (fault) return fault;
        if (!write(&w, joined)) return TSR_ROW_PAIRED;
    }
    return finish(&w, out_layout) ? TSR_ROW_FINE : TSR_ROW_PAIRED;
}

/* ---- questions ------------------------------------------------------------------------------- */

bool tsr_row_has_digit(const tsr_row_layout *layout) {
    for (uint32_t i = 0; i < layout->count; i++)
        if (layout->factors[i].label == TSR_ROW_DIGIT) return true;
    return false;
}

uint64_t tsr_row_digits(const tsr_row_layout *layout) {
    uint64_t product = 1;
    for (uint32_t i = 0; i < layout->count; i++)
        if (layout->factors[i].label == TSR_ROW_DIGIT) product *= layout->factors[i].size;
    return product;
}

tsr_row_layout tsr_row_vary(const tsr_row_layout *layout) {
    tsr_row_layout varied = {0};
    for (uint32_t i = 0; i < layout->count; i++) {
        tsr_row_factor factor = layout->factors[i];
        if (factor.label != TSR_ROW_DIGIT) factor.label = TSR_ROW_VARIES;
        push(&varied, factor);
    }
    return varied;
}

bool tsr_row_layout_equal(const tsr_row_layout *a, const tsr_row_layout *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->factors[i].size != b->factors[i].size ||
            a->factors[i].stride != b->factors[i].stride ||
            a->factors[i].label != b->factors[i].label)
            return false;
    return true;
}
