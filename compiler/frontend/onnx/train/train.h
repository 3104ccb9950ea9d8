/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry @train of a model: the graph in the form of training, then the loss and a step of the
 * optimizer. Its parameters are those of @main.
 */
#ifndef TSR_COMPILER_ONNX_TRAIN_H
#define TSR_COMPILER_ONNX_TRAIN_H

#include "compiler/frontend/onnx/importer.h"

/* When all nodes are imported: computes the loss, whose new data inputs become arguments, and makes
 * the step. `scope` has the names of the graph; *io_count inputs have attributes in `arg_attrs`,
 * which has room for TSR_CONFIG_PORTS_MAX. False after a diagnostic. */
bool tsr_onnx_close_training(tsr_onnx_importer *im, tsr_onnx_scope *scope, size_t *io_count,
                             MlirAttribute *arg_attrs, MlirValue *out_loss);
/* The attributes of a port that is bound to a data set. */
MlirAttribute tsr_onnx_data_attrs(const tsr_onnx_importer *im, const char *name);

/* Emits that the running statistics get their next values. */
void tsr_onnx_assign_statistics(tsr_onnx_importer *im);
/* Marks the parameters of the models that are not trained, when the program is complete. TSR_USAGE
 * for a pattern that fits no parameter. */
TSR_RESULT tsr_onnx_freeze(const tsr_onnx_training *training, tsr_onnx_importer *const *importers,
                           size_t count);

/* ---- for rules ---- */

/* True while the form of training is imported. */
bool tsr_onnx_trains(const tsr_onnx_call *c);
/* True if the program has both forms: a node that says it is in training mode is then in inference
 * mode in the other form. */
bool tsr_onnx_is_trained(const tsr_onnx_call *c);
/* A running statistic of an input: the parameter, or its next value after an earlier node of this
 * step. Fails if the input is not an initializer. */
MlirValue tsr_onnx_statistic(tsr_onnx_call *c, size_t input);
void tsr_onnx_set_statistic(tsr_onnx_call *c, size_t input, MlirValue next);

#endif
