/* SPDX-License-Identifier: Apache-2.0
 *
 * The data that tessera-aot inspect shows, collected once for both output forms.
 */
#ifndef TSR_TOOLS_AOT_INSPECT_H
#define TSR_TOOLS_AOT_INSPECT_H

#include "bundle/bundle.h"
#include "bundle/provenance.h"
#include "bundle/sign.h"
#include "manifests/fatbin.h"
#include "manifests/program.h"
#include "runtime/base/buffer.h"

/* Bytes of the file by purpose; each blob counts once. */
typedef struct inspect_section {
    const char *name; /* static storage */
    uint64_t size_bytes;
    size_t blob_count;
} inspect_section;
enum { INSPECT_SECTIONS_MAX = 16 };

/* Facts from the schedule. */
typedef struct inspect_schedule {
    bool found;
    size_t entry_count, call_count;
    const char *origin; /* allocated in the arena; NULL if it names no origin */
    struct cJSON *root; /* owned; NULL: none was found */
} inspect_schedule;

typedef struct inspect_view {
    const char *path;
    tsr_bundle *bundle; /* owned */
    tsr_arena arena;
    tsr_config config;
    tsr_program *programs; /* one per target; kernel_count is 0 for a target without a program */
    tsr_fatbin *codes;     /* one per target; kernel_count is 0 unless it is for a GPU */
    size_t target_count;
    tsr_signature_report signature;
    tsr_provenance provenance; /* has_provenance: the provenance of the bundle */
    bool has_provenance;
    inspect_schedule schedule;
    inspect_section sections[INSPECT_SECTIONS_MAX];
    size_t section_count;
    const tsr_config_tensor **by_size; /* the tensors, the largest first */
    bool all_tensors, all_kernels;     /* requested by flags, as is the next one */
    bool effects, kernel_sizes;
    tsr_holding *holdings; /* one for each tensor; NULL if no target has a program */
} inspect_view;

/* Returns the plan of the first target; the others have the same, except as in inspect_offloaded.
 * NULL if no target has a program. */
const tsr_program_entry *inspect_plan(const inspect_view *view, size_t entry);
/* Returns the entry's program for that target if it offloads values to the host's memory: then it
 * has a plan of its own. Otherwise NULL. */
const tsr_program_entry *inspect_offloaded(const inspect_view *view, size_t target, size_t entry);
/* Returns the bytes of one of the parts in which ranks store the tensor; 0: it is whole on each
 * rank. */
uint64_t inspect_part_bytes(const inspect_view *view, const tsr_config_tensor *tensor);
/* Returns the peak bytes of the workspace in use: a value is in use from the first to the last
 * command that accesses it; successive values in the same slot count once. */
uint64_t inspect_peak(const tsr_program_entry *plan, tsr_arena *arena);
/* Returns the bytes that the kernels of one run of the entry read and write, for all leaves;
 * without kernels that run again only after a change of their tensor. */
uint64_t inspect_launch_bytes(const tsr_program_entry *plan, uint64_t virtual_ranks);

uint64_t inspect_ports_bytes(const tsr_config_port *ports, size_t count);
uint64_t inspect_tensor_bytes(const tsr_config_tensor *tensor);
uint64_t inspect_tensors_bytes(const tsr_config *config);

/* Returns the effects of running the entry on any of the targets: a set of tsr_effect. */
uint32_t inspect_effects(const inspect_view *view, size_t entry);
bool inspect_is_amd(const tsr_fatbin *code);
/* Returns the warps of a kernel that are resident on a multiprocessor of the target, or the waves
 * on a SIMD of an AMD GPU; 0: unknown. */
uint32_t inspect_warps(const tsr_fatbin *code, uint32_t kernel);

void inspect_show_text(inspect_view *view, tsr_buffer *out);
void inspect_show_json(inspect_view *view, tsr_buffer *out); /* form: schemas/inspect.schema.json */

/* inspect_amd.c: appends the resources and rooflines of an AMD GPU's kernels; returns the number of
 * instructions of matrix units that a wave executes for a step of K, 0: none. */
void inspect_show_amd_kernels(const inspect_view *view, size_t target, tsr_buffer *out);
uint32_t inspect_amd_products(const inspect_view *view, size_t target, uint32_t kernel);

/* Appends the sizes of each kernel, if a flag requests them. */
void inspect_show_kernel_sizes(const inspect_view *view, tsr_buffer *out);

/* The range of commands of a region: its first and last one, which only mark it. */
typedef struct inspect_span {
    uint32_t first, last;
    bool exported;
} inspect_span;
inspect_span inspect_region(const tsr_program_entry *plan, uint32_t region);
const char *inspect_mode(tsr_region_mode mode); /* "replay" */

#endif
