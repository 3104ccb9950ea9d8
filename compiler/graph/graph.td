// SPDX-License-Identifier: Apache-2.0
//
// Graph IR: dialect `tessera`. Syntax, types and effects are here; the rules for shapes, values
// and gradients are in C, with one row per op in ops.def.
//
// Values are immutable tensors. Shapes follow NumPy: storage is row-major, shapes are aligned at their
// last dimension, and a missing dimension or a dimension of size 1 is broadcast.
#ifndef TSR_GRAPH_TD
#define TSR_GRAPH_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tessera_Dialect : Dialect {
  let name = "tessera";
  let cppNamespace = "::tessera::graph";
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    ::mlir::Type parseType(::mlir::DialectAsmParser &parser) const override;
    void printType(::mlir::Type type, ::mlir::DialectAsmPrinter &printer) const override;
  }];
}

// ---- types ---------------------------------------------------------------------------------

def Tessera_Element : AnyTypeOf<[F64, F32, BF16, F16, I64, I32, I16, I8, UI64, UI32, UI16, UI8, I1,
    F8E4M3FN, F8E5M2, F8E8M0FNU],
    "f64, f32, bf16, f16, i64, i32, i16, i8, ui64, ui32, ui16, ui8, i1, f8E4M3FN, f8E5M2 or f8E8M0FNU">;
def Tessera_Tensor : RankedTensorOf<[Tessera_Element]>;

// ---- attributes ----------------------------------------------------------------------------

// A finite double; written as a floating-point literal with an optional sign.
class Tessera_F64<string desc> : AttrOrTypeParameter<"::mlir::FloatAttr", desc> {
  let parser = "::tessera::parseF64($_parser)";
  let printer = "::tessera::printF64($_printer, $_self)";
}

// The same, with the value that it has if it is left out.
class Tessera_DefaultF64<string desc, string value> : Tessera_F64<desc> {
  let defaultValue = "::tessera::makeF64($_ctxt, " # value # ")";
  string text = value;
}

class Tessera_Attr<string cppName, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Tessera_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

// A rule for initial values carries the tensor's type, as dense<…> does.
class Tessera_RuleAttr<string cppName, string attrMnemonic>
    : Tessera_Attr<cppName, attrMnemonic, [TypedAttrInterface]>;

def Tessera_UniformAttr : Tessera_RuleAttr<"Uniform", "uniform"> {
  let summary = "draws initial values uniformly from [low, high)";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"lowest value">:$low,
      Tessera_F64<"upper bound, which is excluded">:$high);
  let assemblyFormat = "`<` $low `,` $high `>`";
}

def Tessera_NormalAttr : Tessera_RuleAttr<"Normal", "normal"> {
  let summary = "draws initial values from a normal distribution";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"mean">:$mean,
      Tessera_F64<"standard deviation">:$deviation);
  let assemblyFormat = "`<` $mean `,` $deviation `>`";
}

def Tessera_ConstantAttr : Tessera_RuleAttr<"Constant", "constant"> {
  let summary = "gives every element this initial value";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"value">:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Tessera_InitAttr : AnyAttrOf<[Tessera_UniformAttr, Tessera_NormalAttr, Tessera_ConstantAttr],
    "#tessera.uniform, #tessera.normal or #tessera.constant">;

// Defaults are those of torch.optim.AdamW and torch.optim.SGD; the learning rate has none, and neither
// has the momentum of #tessera.nesterov, which torch.optim.SGD(nesterov=True) refuses to be 0.
def Tessera_AdamWAttr : Tessera_Attr<"AdamW", "adamw"> {
  let summary = "AdamW with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2)";
  let parameters = (ins Tessera_F64<"learning rate">:$lr,
      Tessera_DefaultF64<"decay of the first moment", "0.9">:$beta1,
      Tessera_DefaultF64<"decay of the second moment", "0.999">:$beta2,
      Tessera_DefaultF64<"added to the square root", "1.0e-8">:$eps,
      Tessera_DefaultF64<"decay per step, multiplied by lr", "0.01">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
}

class Tessera_SgdBase<string cppName, string attrMnemonic, AttrOrTypeParameter momentum>
    : Tessera_Attr<cppName, attrMnemonic> {
  let parameters = (ins Tessera_F64<"learning rate">:$lr, momentum:$momentum,
      Tessera_DefaultF64<"factor of the parameter that is added to the gradient", "0.0">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tessera_SgdAttr
    : Tessera_SgdBase<"Sgd", "sgd", Tessera_DefaultF64<"decay of the velocity", "0.0">> {
  let summary = "gradient descent with momentum and coupled weight decay";
}

def Tessera_NesterovAttr
    : Tessera_SgdBase<"Nesterov", "nesterov", Tessera_F64<"decay of the velocity">> {
  let summary = "gradient descent with Nesterov momentum (Sutskever et al. 2013, section 2)";
}

def Tessera_SgdAttrs : AnyAttrOf<[Tessera_SgdAttr, Tessera_NesterovAttr],
    "#tessera.sgd or #tessera.nesterov">;
def Tessera_OptimizerAttr : AnyAttrOf<[Tessera_AdamWAttr, Tessera_SgdAttr, Tessera_NesterovAttr],
    "#tessera.adamw, #tessera.sgd or #tessera.nesterov">;

def Tessera_DimsAttr : Tessera_Attr<"Dims", "dims",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "the encoding of a tensor with open dims: an expression for each `?` of the shape";
  let description = [{
    `tensor<?x?x64xf32, #tessera.dims<N, "S + 1">>` has the dims N, S + 1 and 64. The expressions are made of
    symbols, integers, `+ - *`, `floor(a/b)`, `min(a, b)` and `max(a, b)`, and are kept in a canonical form, so
    that types are equal if their dims are equal polynomials. One that is not a single symbol is quoted; "?" is a
    dim that is not inferred yet. A symbol is the same size in the whole module; pass tessera-bind-dims replaces
    it by a number.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
}

// Sizes and positions: integers, and expressions over the symbols of open dims.
def Tessera_DimAttr : AnyAttrOf<[I64Attr, StrAttr], "64-bit integer or expression">;
def Tessera_DimArrayAttr : TypedArrayAttrBase<Tessera_DimAttr, "array of integers and expressions">;

def Tessera_Predicate : I32EnumAttr<"Predicate", "comparison", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::tessera::graph";
}

include "compiler/resilience/dotted.td"

// ---- op classes ----------------------------------------------------------------------------

include "compiler/graph/form.td"

// Ops with one result and no effect: equal ops merge, unused ops are removed, constants fold.
class Tessera_ValueOp<string mnemonic, string resultTypes, list<Trait> traits = [], string keyword = "">
    : Tessera_FormOp<mnemonic, resultTypes, traits # [Pure], keyword> {
  let results = (outs Tessera_Tensor:$result);
  let hasFolder = 1;
}

// The same, with a text of its own.
class Tessera_OwnValueOp<string mnemonic, list<Trait> traits = []> : Tessera_Op<mnemonic, traits # [Pure]> {
  let results = (outs Tessera_Tensor:$result);
  let hasFolder = 1;
}

class Tessera_UnaryOp<string mnemonic, string what>
    : Tessera_ValueOp<mnemonic, "Same", [AllTypesMatch<["input", "result"]>]> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$input);
}

class Tessera_BinaryOp<string mnemonic, string what> : Tessera_ValueOp<mnemonic, "Inferred"> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$lhs, Tessera_Tensor:$rhs);
}

class Tessera_ReduceOp<string mnemonic, string what> : Tessera_ValueOp<mnemonic, "Inferred"> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$input, I64ArrayAttr:$axes);
}

class Tessera_ShapeOp<string mnemonic, string what, dag args, string resultTypes = "Inferred">
    : Tessera_ValueOp<mnemonic, resultTypes> {
  let summary = what;
  let arguments = args;
}

// ---- parameters, state, training -----------------------------------------------------------

def Tessera_ParamOp : Tessera_Op<"param", [Pure]> {
  let summary = "reads the value that a parameter has before this step";
  let description = [{
    A parameter has a stable name, and either an `init` rule or stored `data`.

    `tessera.param "w" init = #tessera.uniform<-0.1, 0.1> : tensor<4x4xf32>`

    `tessera.param "b" data = dense<[1.0, 2.0]> : tensor<2xf32>`

    Attributes make a group of it: `frozen` (tessera.minimize computes no gradient and makes no step),
    `no_decay` (no weight decay), `lr_factor` (its learning rate is the optimizer's times this number).
    All reads of one parameter have the same ones.

    `tessera.param "w" {lr_factor = 0.1, no_decay} init = #tessera.constant<0.0> : tensor<4xf32>`
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$name, OptionalAttr<Tessera_InitAttr>:$init,
      OptionalAttr<ElementsAttr>:$data, OptionalAttr<UnitAttr>:$frozen,
      OptionalAttr<UnitAttr>:$no_decay, OptionalAttr<AnyAttr>:$lr_factor);
  let results = (outs AnyTensor:$result);
  let form = "%result = tessera.param \"name\" [{[frozen], [no_decay], [lr_factor = number]}] init = #rule : type, or data = dense<...> : type";
  let reason = "its initial value has the type of the result, so one type is enough, and the name comes first, as in a declaration";
  let assemblyFormat = [{
    ($name^)? attr-dict custom<Initial>($init, $data, type($result))
  }];
}

def Tessera_OptStateOp : Tessera_Op<"opt.state", [Pure]> {
  let summary = "reads the optimizer state that belongs to a parameter, as it is before this step";
  let description = [{
    The state may have any static shape and element type. `of` is the name of the parameter, and `kind` tells
    which state of that parameter it is, for example "adam_m". `init` is the rule for its initial value. An op
    with a result of type `!tessera.opt.state` only declares the state for tessera.optimizer.shard; programs
    cannot compute with it.
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$name, OptionalAttr<StrAttr>:$of,
      OptionalAttr<StrAttr>:$kind, OptionalAttr<Tessera_InitAttr>:$init);
  let results = (outs AnyTypeOf<[AnyTensor, Tessera_OptStateType]>:$result);
  let form = "%result = tessera.opt.state \"name\" of \"parameter\" kind \"kind\" init = #rule : type";
  let reason = "as for tessera.param";
  let assemblyFormat = [{
    ($name^)? (`of` $of^)? (`kind` $kind^)? attr-dict custom<Rule>($init, type($result))
  }];
}

def Tessera_AssignOp : Tessera_Op<"assign"> {
  let summary = "sets the next value of a tensor; the change takes effect when the step ends";
  let description = [{
    `target` is the name of a tessera.param or tessera.opt.state that an entry reads; the value has the same
    type. An entry assigns each name at most once. Reads see the old value until the step ends.
  }];
  let arguments = (ins Tessera_Tensor:$value, StrAttr:$target);
  let form = "tessera.assign %value to \"target\" : type";
  let reason = "the order is that of the sentence: a value is assigned to a name";
  let assemblyFormat = "$value `to` $target attr-dict `:` type($value)";
}

def Tessera_StepOp : Tessera_FormOp<"step", "Declared", [Pure]> {
  let summary = "returns the number of this step, counted from 1";
  let description = [{
    The result is a scalar i64. A step that is repeated after a restart has the same number as before.
  }];
  let results = (outs Tessera_Tensor:$result);
}

def Tessera_HyperparameterOp : Tessera_FormOp<"hyperparameter", "Declared", [Pure]> {
  let summary = "returns a number that a run can set";
  let description = [{
    The result is a scalar f32 or f64: `value`, unless `tessera-run --set KEY=VALUE` gives another number, from
    `least` to `most` (by default, all numbers of f32). Only train entries can contain this op, outside of loops, branches and derivatives. All ops
    with one key have the same value. The numbers of optimizers become such ops when their steps are lowered.
  }];
  let arguments = (ins StrAttr:$key, F64Attr:$value, OptionalAttr<F64Attr>:$least, OptionalAttr<F64Attr>:$most);
  let results = (outs Tessera_Tensor:$result);
}

def Tessera_MinimizeOp : Tessera_FormOp<"minimize", "Same"> {
  let summary = "makes one optimizer step for every parameter that the loss depends on";
  let description = [{
    The loss is a scalar f32 or f64. Pass tessera-autodiff replaces this op with the gradients of all parameters
    that the loss depends on, the optimizer's ops and the assignments. Only train entries may contain this op.
    `clip_norm` is the largest global norm of the gradients: larger gradients are scaled down to it. The
    optional result is the global norm before scaling, in the type of the loss.
  }];
  let arguments = (ins Tessera_Tensor:$loss, Tessera_OptimizerAttr:$optimizer,
      OptionalAttr<AnyAttr>:$clip_norm, OptionalAttr<AnyAttr>:$lr_schedule);
  let results = (outs Optional<Tessera_Tensor>:$norm);
}

def Tessera_AdamWOp : Tessera_FormOp<"adamw", "Same", [Pure,
    AllTypesMatch<["param", "grad", "m", "v", "new_param", "new_m", "new_v"]>]> {
  let summary = "makes one AdamW step: returns the new parameter, first moment and second moment";
  let description = [{
    All tensors have the parameter's type, f32 or f64; the step is a scalar i64, counted from 1. The op
    implements decoupled weight decay with bias corrections in f64 (Loshchilov and Hutter 2019, algorithm 2), in
    the order of operations of torch.optim.AdamW. `scale` is an optional scalar of the parameter's element type;
    the gradient is multiplied by it first.
  }];
  let arguments = (ins Tessera_Tensor:$param, Tessera_Tensor:$grad, Tessera_Tensor:$m,
      Tessera_Tensor:$v, Tessera_Tensor:$step, Optional<Tessera_Tensor>:$scale,
      Tessera_AdamWAttr:$optimizer, OptionalAttr<AnyAttr>:$lr_schedule);
  let results = (outs Tessera_Tensor:$new_param, Tessera_Tensor:$new_m, Tessera_Tensor:$new_v);
}

def Tessera_SgdOp : Tessera_FormOp<"sgd", "Same", [Pure,
    AllTypesMatch<["param", "grad", "velocity", "new_param", "new_velocity"]>]> {
  let summary = "makes one step of gradient descent: returns the new parameter and velocity";
  let description = [{
    All tensors have the parameter's type, f32 or f64. The new velocity is the old one times `momentum`, plus
    the gradient; `weight_decay` times the parameter is added to the gradient before. With #tessera.nesterov the
    parameter moves along the gradient plus `momentum` times the new velocity (Sutskever et al. 2013, section
    2). The order of operations is that of torch.optim.SGD without dampening. `scale` is an optional scalar of
    the parameter's element type; the gradient is multiplied by it first.
  }];
  let arguments = (ins Tessera_Tensor:$param, Tessera_Tensor:$grad, Tessera_Tensor:$velocity,
      Optional<Tessera_Tensor>:$scale, Tessera_SgdAttrs:$optimizer,
      OptionalAttr<AnyAttr>:$lr_schedule);
  let results = (outs Tessera_Tensor:$new_param, Tessera_Tensor:$new_velocity);
}

// ---- all other ops, one file per family -----------------------------------------------------

include "compiler/graph/ops/elementwise.td"
include "compiler/graph/ops/quantize.td"
include "compiler/graph/ops/shape.td"
include "compiler/graph/ops/move.td"
include "compiler/graph/ops/rows.td"
include "compiler/graph/ops/image.td"
include "compiler/graph/ops/experts.td"
include "compiler/graph/ops/control.td"

#endif
