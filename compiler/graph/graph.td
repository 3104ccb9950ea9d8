// SPDX-License-Identifier: Apache-2.0
//
// Graph IR: dialect `tessera`. Syntax, types and effects stand here; what an op means for shapes,
// values and gradients stands in C, one row per op in ops.def.
//
// Values are immutable tensors. Shapes are NumPy's: row-major, broadcasting from the right, a
// missing or 1-sized dimension stretches.
#ifndef TSR_GRAPH_TD
#define TSR_GRAPH_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/BuiltinTypes.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tessera_Dialect : Dialect {
  let name = "tessera";
  let cppNamespace = "::tessera::graph";
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

// ---- types ---------------------------------------------------------------------------------

def Tessera_Element : AnyTypeOf<[F64, F32, I64, I32, I1, UI8], "f64, f32, i64, i32, i1 or ui8">;
def Tessera_Tensor : RankedTensorOf<[Tessera_Element]>;

// ---- attributes ----------------------------------------------------------------------------

// A finite double; written as a floating-point literal with an optional sign.
class Tessera_F64<string desc> : AttrOrTypeParameter<"::mlir::FloatAttr", desc> {
  let parser = "::tessera::parseF64($_parser)";
  let printer = "::tessera::printF64($_printer, $_self)";
}

class Tessera_Attr<string cppName, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Tessera_Dialect, cppName, traits> {
  let mnemonic = attrMnemonic;
}

// A rule for initial values carries the tensor's type, as dense<…> does.
class Tessera_RuleAttr<string cppName, string attrMnemonic>
    : Tessera_Attr<cppName, attrMnemonic, [TypedAttrInterface]>;

def Tessera_UniformAttr : Tessera_RuleAttr<"Uniform", "uniform"> {
  let summary = "initial values drawn uniformly from [low, high)";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"lowest value">:$low,
      Tessera_F64<"bound">:$high);
  let assemblyFormat = "`<` $low `,` $high `>`";
}

def Tessera_NormalAttr : Tessera_RuleAttr<"Normal", "normal"> {
  let summary = "initial values drawn from a normal distribution";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"mean">:$mean,
      Tessera_F64<"standard deviation">:$deviation);
  let assemblyFormat = "`<` $mean `,` $deviation `>`";
}

def Tessera_ConstantAttr : Tessera_RuleAttr<"Constant", "constant"> {
  let summary = "every element has this initial value";
  let parameters = (ins AttributeSelfTypeParameter<"">:$type, Tessera_F64<"value">:$value);
  let assemblyFormat = "`<` $value `>`";
}

def Tessera_InitAttr : AnyAttrOf<[Tessera_UniformAttr, Tessera_NormalAttr, Tessera_ConstantAttr],
    "#tessera.uniform, #tessera.normal or #tessera.constant">;

def Tessera_AdamWAttr : Tessera_Attr<"AdamW", "adamw"> {
  let summary = "AdamW with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2)";
  let parameters = (ins Tessera_F64<"learning rate">:$lr, Tessera_F64<"decay of the mean">:$beta1,
      Tessera_F64<"decay of the square">:$beta2, Tessera_F64<"added to the root">:$eps,
      Tessera_F64<"per step, times lr">:$weight_decay);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Tessera_Predicate : I32EnumAttr<"Predicate", "comparison", [
    I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
    I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::tessera::graph";
}

// ---- op classes ----------------------------------------------------------------------------

class Tessera_Op<string mnemonic, list<Trait> traits = []> : Op<Tessera_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}

// One result, no effect: common subexpressions merge, unused ones vanish, constants fold.
class Tessera_ValueOp<string mnemonic, list<Trait> traits = []>
    : Tessera_Op<mnemonic, traits # [Pure]> {
  let results = (outs Tessera_Tensor:$result);
  let hasFolder = 1;
}

class Tessera_UnaryOp<string mnemonic, string what>
    : Tessera_ValueOp<mnemonic, [AllTypesMatch<["input", "result"]>]> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

class Tessera_BinaryOp<string mnemonic, string what> : Tessera_ValueOp<mnemonic> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$lhs, Tessera_Tensor:$rhs);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

class Tessera_ReduceOp<string mnemonic, string what> : Tessera_ValueOp<mnemonic> {
  let summary = what;
  let arguments = (ins Tessera_Tensor:$input, I64ArrayAttr:$axes);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

class Tessera_ShapeOp<string mnemonic, string what, dag args> : Tessera_ValueOp<mnemonic> {
  let summary = what;
  let arguments = args;
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

// ---- parameters, state, training -----------------------------------------------------------

def Tessera_ParamOp : Tessera_Op<"param", [Pure]> {
  let summary = "a parameter's value as it was before this step";
  let description = [{
    A parameter has a stable name, and either an `init` rule or stored `data`.
    `tessera.param "w" init = #tessera.uniform<-0.1, 0.1> : tensor<4x4xf32>`
    `tessera.param "b" data = dense<[1.0, 2.0]> : tensor<2xf32>`
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$name, OptionalAttr<Tessera_InitAttr>:$init,
      OptionalAttr<ElementsAttr>:$data);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = [{
    ($name^)? attr-dict custom<Initial>($init, $data, type($result))
  }];
}

def Tessera_OptStateOp : Tessera_Op<"opt.state", [Pure]> {
  let summary = "optimizer state of a parameter, as it was before this step";
  let arguments = (ins OptionalAttr<StrAttr>:$name, OptionalAttr<StrAttr>:$of,
      OptionalAttr<StrAttr>:$kind, OptionalAttr<Tessera_InitAttr>:$init);
  let results = (outs AnyTensor:$result);
  let assemblyFormat = [{
    ($name^)? (`of` $of^)? (`kind` $kind^)? attr-dict custom<Rule>($init, type($result))
  }];
}

def Tessera_AssignOp : Tessera_Op<"assign"> {
  let summary = "the value becomes the named tensor's next value, when the step ends";
  let arguments = (ins Tessera_Tensor:$value, StrAttr:$target);
  let assemblyFormat = "$value `to` $target attr-dict `:` type($value)";
}

def Tessera_StepOp : Tessera_Op<"step", [Pure]> {
  let summary = "the number of this step, from 1";
  let results = (outs Tessera_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Tessera_MinimizeOp : Tessera_Op<"minimize"> {
  let summary = "one optimizer step on every parameter the loss depends on";
  let arguments = (ins Tessera_Tensor:$loss, Tessera_AdamWAttr:$optimizer);
  let assemblyFormat = "$loss attr-dict `:` type($loss)";
}

def Tessera_AdamWOp : Tessera_Op<"adamw", [Pure,
    AllTypesMatch<["param", "grad", "m", "v", "new_param", "new_m", "new_v"]>]> {
  let summary = "new parameter, first and second moment after one AdamW step";
  let arguments = (ins Tessera_Tensor:$param, Tessera_Tensor:$grad, Tessera_Tensor:$m,
      Tessera_Tensor:$v, Tessera_Tensor:$step, Tessera_AdamWAttr:$optimizer);
  let results = (outs Tessera_Tensor:$new_param, Tessera_Tensor:$new_m, Tessera_Tensor:$new_v);
  let assemblyFormat = [{
    $param `,` $grad `,` $m `,` $v `,` $step attr-dict `:` type($param) `,` type($step)
  }];
}

// ---- values --------------------------------------------------------------------------------

def Tessera_ConstantOp : Tessera_ValueOp<"constant", [ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at build time";
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "$value attr-dict";
}

def Tessera_AddOp : Tessera_BinaryOp<"add", "lhs + rhs">;
def Tessera_SubOp : Tessera_BinaryOp<"sub", "lhs - rhs">;
def Tessera_MulOp : Tessera_BinaryOp<"mul", "lhs * rhs">;
def Tessera_DivOp : Tessera_BinaryOp<"div", "lhs / rhs; integers truncate toward zero">;
def Tessera_MaxOp : Tessera_BinaryOp<"max", "the larger of lhs and rhs">;
def Tessera_MinOp : Tessera_BinaryOp<"min", "the smaller of lhs and rhs">;
def Tessera_IPowOp : Tessera_BinaryOp<"ipow", "lhs (float) to the power rhs (i64)">;

def Tessera_PowOp : Tessera_BinaryOp<"pow", "lhs (float) to the power rhs, as IEEE 754's pow">;
def Tessera_AndOp : Tessera_BinaryOp<"and", "i1: both">;
def Tessera_OrOp : Tessera_BinaryOp<"or", "i1: one or both">;
def Tessera_XorOp : Tessera_BinaryOp<"xor", "i1: just one">;

def Tessera_NegOp : Tessera_UnaryOp<"neg", "-x">;
def Tessera_ReluOp : Tessera_UnaryOp<"relu", "max(x, 0)">;
def Tessera_ExpOp : Tessera_UnaryOp<"exp", "e to the x">;
def Tessera_LogOp : Tessera_UnaryOp<"log", "natural logarithm">;
def Tessera_TanhOp : Tessera_UnaryOp<"tanh", "hyperbolic tangent">;
def Tessera_SqrtOp : Tessera_UnaryOp<"sqrt", "square root">;
def Tessera_AbsOp : Tessera_UnaryOp<"abs", "absolute value">;
def Tessera_Expm1Op : Tessera_UnaryOp<"expm1", "e to the x, minus 1">;
def Tessera_Log1pOp : Tessera_UnaryOp<"log1p", "natural logarithm of 1 + x">;
def Tessera_RsqrtOp : Tessera_UnaryOp<"rsqrt", "1 / square root">;
def Tessera_ErfOp : Tessera_UnaryOp<"erf", "error function">;
def Tessera_SigmoidOp : Tessera_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def Tessera_SiluOp : Tessera_UnaryOp<"silu", "x / (1 + exp(-x))">;
def Tessera_SignOp : Tessera_UnaryOp<"sign", "-1, 1, or x where it is zero or NaN">;
def Tessera_FloorOp : Tessera_UnaryOp<"floor", "the largest integer that is not above x">;
def Tessera_NotOp : Tessera_UnaryOp<"not", "i1: the other">;

def Tessera_GeluOp : Tessera_ValueOp<"gelu", [AllTypesMatch<["input", "result"]>]> {
  let summary = "x times the normal distribution's cumulative function at x";
  let description = [{
    `approximate` is "none": x (1 + erf(x / sqrt(2))) / 2, or "tanh":
    x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
  }];
  let arguments = (ins Tessera_Tensor:$input,
      DefaultValuedAttr<StrAttr, "\"none\"">:$approximate);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_ClampOp : Tessera_ValueOp<"clamp", [AllTypesMatch<["input", "result"]>]> {
  let summary = "low where x is below it, high where x is above it, else x";
  let arguments = (ins Tessera_Tensor:$input, F64Attr:$low, F64Attr:$high);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tessera_CompareOp : Tessera_ValueOp<"compare"> {
  let summary = "i1: does lhs compare so with rhs";
  let arguments = (ins Tessera_Predicate:$predicate, Tessera_Tensor:$lhs, Tessera_Tensor:$rhs);
  let assemblyFormat = [{
    $predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def Tessera_WhereOp : Tessera_ValueOp<"where"> {
  let summary = "on_true where the condition holds, else on_false";
  let arguments = (ins Tessera_Tensor:$condition, Tessera_Tensor:$on_true, Tessera_Tensor:$on_false);
  let assemblyFormat = [{
    $condition `,` $on_true `,` $on_false attr-dict `:`
    type($condition) `,` type($on_true) `,` type($on_false) `->` type($result)
  }];
}

def Tessera_CastOp : Tessera_ValueOp<"cast"> {
  let summary = "the same values in another element type";
  let arguments = (ins Tessera_Tensor:$input);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}

def Tessera_MatmulOp : Tessera_ValueOp<"matmul"> {
  let summary = "matrix product of two 2-D tensors";
  let arguments = (ins Tessera_Tensor:$lhs, Tessera_Tensor:$rhs,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
      DefaultValuedAttr<BoolAttr, "false">:$transpose_b);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
}

def Tessera_SumOp : Tessera_ReduceOp<"sum", "sum over the axes, which disappear">;
def Tessera_MeanOp : Tessera_ReduceOp<"mean", "mean over the axes, which disappear">;
def Tessera_ReduceMaxOp : Tessera_ReduceOp<"reduce_max", "largest over the axes, which disappear">;
def Tessera_ReduceMinOp : Tessera_ReduceOp<"reduce_min", "smallest over the axes, which disappear">;
def Tessera_ReduceProdOp : Tessera_ReduceOp<"reduce_prod", "product over the axes, which disappear">;

def Tessera_ArgmaxOp : Tessera_ShapeOp<"argmax", "i64: index of the first largest along the axis",
    (ins Tessera_Tensor:$input, I64Attr:$axis)>;
def Tessera_ReshapeOp : Tessera_ShapeOp<"reshape", "the same elements in another shape",
    (ins Tessera_Tensor:$input)>;
def Tessera_TransposeOp : Tessera_ShapeOp<"transpose", "result dim i is input dim permutation[i]",
    (ins Tessera_Tensor:$input, I64ArrayAttr:$permutation)>;
def Tessera_BroadcastOp : Tessera_ShapeOp<"broadcast", "stretch to the result's shape",
    (ins Tessera_Tensor:$input)>;

def Tessera_CrossEntropyOp : Tessera_ValueOp<"cross_entropy"> {
  let summary = "per row: logsumexp(logits) - logits[label]";
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels);
  let assemblyFormat = [{
    $logits `,` $labels attr-dict `:` type($logits) `,` type($labels) `->` type($result)
  }];
}

def Tessera_CrossEntropyGradOp : Tessera_ValueOp<"cross_entropy_grad"> {
  let summary = "per row: (softmax(logits) - onehot(label)) * dloss";
  let arguments = (ins Tessera_Tensor:$logits, Tessera_Tensor:$labels, Tessera_Tensor:$dlosses);
  let assemblyFormat = [{
    $logits `,` $labels `,` $dlosses attr-dict `:`
    type($logits) `,` type($labels) `,` type($dlosses) `->` type($result)
  }];
}

#endif
