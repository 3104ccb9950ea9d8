/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to this folder: functions of the module as functions of Graph IR.
 */
#ifndef TSR_COMPILER_STABLEHLO_ENTRY_H
#define TSR_COMPILER_STABLEHLO_ENTRY_H

#include "compiler/frontend/stablehlo/importer.h"

/* The function of the module that becomes the entry. False after a diagnostic, or with an error in
 * the context. */
bool tsr_hlo_import_entry(tsr_hlo_importer *im);
/* A function that is called. */
bool tsr_hlo_import_private(tsr_hlo_importer *im, MlirOperation func);

/* import.c: binds the arguments of a function and imports its ops. */
bool tsr_hlo_import_body(tsr_hlo_importer *im, MlirOperation func, const MlirValue *arguments,
                         size_t out_count, MlirValue *out_values);
/* import.c: the type of an input or output; false after a diagnostic. */
bool tsr_hlo_port_type(tsr_hlo_importer *im, MlirOperation func, const char *what, size_t index,
                       MlirType type, tsr_type *out_type);

#endif
