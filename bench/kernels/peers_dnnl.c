/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN 2.6: sgemm, the matmul primitive on plain memory, and the primitive with the weights in
 * its preferred format; the last one in bf16, too, if the CPU supports oneDNN's bf16. This is a
 * separate module, so that the benchmarks run without it.
 */
#include "bench/kernels/peers.h"
#include "runtime/base/array.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>
#include <string.h>

typedef struct prepared {
    peer_matmul problem;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_t memories[3];
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[3];
} prepared;

static void release(void *user) {
    prepared *p = user;
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->desc) dnnl_primitive_desc_destroy(p->desc);
    for (int i = 0; i < 3; i++)
        if (p->memories[i]) dnnl_memory_destroy(p->memories[i]);
    if (p->stream) dnnl_stream_destroy(p->stream);
    if (p->engine) dnnl_engine_destroy(p->engine);
    free(p);
}

static void run_sgemm(void *user) {
    const prepared *p = user;
    dnnl_dim_t m = (dnnl_dim_t)p->problem.m, n = (dnnl_dim_t)p->problem.n,
               k = (dnnl_dim_t)p->problem.k;
    dnnl_sgemm('N', 'N', m, n, k, 1, p->problem.a, k, p->problem.b, n, 0, p->problem.c, n);
}

static void *prepare_sgemm(const peer *self, const peer_matmul *problem) {
    (void)self;
    prepared *p = calloc(1, sizeof *p);
    if (p) p->problem = *problem;
    return p;
}

static void run_primitive(void *user) {
    prepared *p = user;
    dnnl_primitive_execute(p->primitive, p->stream, 3, p->arguments);
    dnnl_stream_wait(p->stream);
}

static bool make_primitive(prepared *p, const dnnl_memory_desc_t *descs) {
    dnnl_matmul_desc_t matmul;
    if (dnnl_matmul_desc_init(&matmul, &descs[0], &descs[1], NULL, &descs[2]) != dnnl_success ||
        dnnl_primitive_desc_create(&p->desc, &matmul, NULL, p->engine, NULL) != dnnl_success)
        return false;
    return dnnl_primitive_create(&p->primitive, p->desc) == dnnl_success;
}

/* Packs the weights into the format that the primitive chose. */
static bool pack_weights(prepared *p, const dnnl_memory_desc_t *plain, const void *b) {
    const dnnl_memory_desc_t *wanted =
        dnnl_primitive_desc_query_md(p->desc, dnnl_query_weights_md, 0);
    dnnl_memory_t from = NULL;
    dnnl_primitive_desc_t reorder_desc = NULL;
    dnnl_primitive_t reorder = NULL;
    bool done = dnnl_memory_create(&from, plain, p->engine, (void *)b) == dnnl_success &&
                dnnl_memory_create(&p->memories[1], wanted, p->engine, DNNL_MEMORY_ALLOCATE) ==
                    dnnl_success &&
                dnnl_reorder_primitive_desc_create(&reorder_desc, plain, p->engine, wanted,
                                                   p->engine, NULL) == dnnl_success &&
                dnnl_primitive_create(&reorder, reorder_desc) == dnnl_success;
    if (done) {
        dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, p->memories[1]}};
        done = dnnl_primitive_execute(reorder, p->stream, 2, arguments) == dnnl_success &&
               dnnl_stream_wait(p->stream) == dnnl_success;
    }
    if (reorder) dnnl_primitive_destroy(reorder);
    if (reorder_desc) dnnl_primitive_desc_destroy(reorder_desc);
    if (from) dnnl_memory_destroy(from);
    return done;
}

static bool fill(prepared *p, bool packed, bool narrow) {
    const peer_matmul *q = &p->problem;
    dnnl_data_type_t type = narrow ? dnnl_bf16 : dnnl_f32;
    const void *a = narrow ? (const void *)q->a_narrow : q->a;
    const void *b = narrow ? (const void *)q->b_narrow : q->b;
    void *c = narrow ? (void *)q->c_narrow : q->c;
    dnnl_dim_t m = (dnnl_dim_t)q->m, n = (dnnl_dim_t)q->n, k = (dnnl_dim_t)q->k;
    dnnl_dims_t dims[3] = {{m, k}, {k, n}, {m, n}};
    dnnl_memory_desc_t descs[3], plain;
    for (int i = 0; i < 3; i++) dnnl_memory_desc_init_by_tag(&descs[i], 2, dims[i], type, dnnl_ab);
    plain = descs[1];
    if (packed) dnnl_memory_desc_init_by_tag(&descs[1], 2, dims[1], type, dnnl_format_tag_any);
    if (dnnl_engine_create(&p->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) != dnnl_success ||
        !make_primitive(p, descs))
        return false;
    if (dnnl_memory_create(&p->memories[0], &descs[0], p->engine, (void *)a) != dnnl_success ||
        dnnl_memory_create(&p->memories[2], &descs[2], p->engine, c) != dnnl_success)
        return false;
    if (packed ? !pack_weights(p, &plain, b)
               : dnnl_memory_create(&p->memories[1], &plain, p->engine, (void *)b) != dnnl_success)
        return false;
    static const int names[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    for (int i = 0; i < 3; i++) p->arguments[i] = (dnnl_exec_arg_t){names[i], p->memories[i]};
    return true;
}

static void *prepare_primitive(const peer *self, const peer_matmul *problem) {
    prepared *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->problem = *problem;
    if ((!self->is_narrow || problem->a_narrow) && fill(p, self->prepacks, self->is_narrow))
        return p;
    release(p);
    return NULL;
}

__attribute__((visibility("default"))) size_t peers_open_dnnl(peer *peers, size_t capacity) {
    static const peer rows[] = {
        {"oneDNN sgemm", false, false, prepare_sgemm, run_sgemm, release, NULL},
        {"oneDNN matmul", false, false, prepare_primitive, run_primitive, release, NULL},
        {"oneDNN matmul, packed", true, false, prepare_primitive, run_primitive, release, NULL},
        {"oneDNN bf16", false, true, prepare_primitive, run_primitive, release, NULL},
        {"oneDNN bf16, packed", true, true, prepare_primitive, run_primitive, release, NULL},
    };
    size_t count = TSR_COUNT(rows) < capacity ? TSR_COUNT(rows) : capacity;
    memcpy(peers, rows, count * sizeof *peers);
    return count;
}
