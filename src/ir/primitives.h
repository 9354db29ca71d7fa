#pragma once
/// The primitives: what a backend must run, or leave to the fallback device. Semantics stand here;
/// records are in the file of src/ops/primitives/ named by each heading. In a lowered Graph every
/// elementwise node has operands of one dtype (Select: the last two) and of the result's sizes;
/// while tracing they broadcast and promote.
///
/// Attributes are listed after the operands, by name. All sizes, dims and starts are integers; dims
/// are already wrapped to [0, rank).

#include "hammock/ir/op_def.h"

namespace hammock::ops {

// ---- leaves.cpp
extern const OpDef kInput;       ///< input : a graph's parameter; never traced
extern const OpDef kDeviceData;  ///< device_data : traced leaf with data on its device or host
extern const OpDef kScalarLeaf;  ///< scalar : traced lifted scalar {value}, outside the key
extern const OpDef kRngState;    ///< rng_state : traced u64[2] leaf {seed, offset}, outside the key
extern const OpDef kTensorList;  ///< tensor_list(Tensor[] tensors): its operands, as one node
extern const OpDef kConstant;    ///< constant {value: Scalar, dtype} : rank 0, in the key

// ---- elementwise.cpp: one record per ScalarFn, unary and binary, named as in PyTorch
extern const OpDef kAbs, kNeg, kSign, kFloor, kCeil, kTrunc, kRound, kSqrt, kRsqrt, kReciprocal,
    kExp, kExp2, kExpm1, kLog, kLog2, kLog10, kLog1p, kSin, kCos, kTan, kAsin, kAcos, kAtan, kSinh,
    kCosh, kTanh, kAsinh, kAcosh, kAtanh, kErf, kErfc, kErfinv, kLgamma, kDigamma, kSigmoid,
    kBitwiseNot, kLogicalNot, kIsNan;
extern const OpDef kAdd, kSub, kMul, kDiv, kFloorDivide, kTruncDivide, kRemainder, kFmod, kPow,
    kMaximum, kMinimum, kFmax, kFmin, kAtan2, kHypot, kCopysign, kNextafter, kGcd, kBitwiseAnd,
    kBitwiseOr, kBitwiseXor, kShiftLeft, kShiftRight, kLogicalAnd, kLogicalOr, kLogicalXor, kEq,
    kNe, kLt, kLe, kGt, kGe;
// ---- bessel_gamma.cpp: as those above
extern const OpDef kErfcx, kI0e, kI1e, kIgamma, kIgammac, kZeta;
// ---- activations.cpp: as those above
extern const OpDef kExactGelu;

// ---- elementwise.cpp
extern const OpDef kWhere;  ///< where(condition, self, other): select
extern const OpDef
    kCast;  ///< cast(self) {dtype}: C conversion; float to int truncates, to bool is != 0
extern const OpDef
    kBitcast;  ///< bitcast(self) {dtype}: same bits; the last dim scales with the width

// ---- complex.cpp
extern const OpDef
    kComplex;  ///< complex(real, imag): pairs of equal sizes, f32 as c64, f64 as c128
extern const OpDef kReal, kImag;  ///< real(self), imag(self): a part; split_complex.h removes them

// ---- generate.cpp
extern const OpDef kIota;     ///< iota() {size, dtype}: 0, 1, 2, ... : dtype[size]
extern const OpDef kRngBits;  ///< rng_bits(state) {sizes}: u32 words of Philox4x32-10, see philox.h

// ---- shape.cpp
extern const OpDef kReshape;    ///< reshape(self) {sizes}: row-major order kept; no -1
extern const OpDef kBroadcast;  ///< broadcast(self) {sizes}: aligned right, size 1 stretches
extern const OpDef kPermute;    ///< permute(self) {dims}: result dim i is dim dims[i] of self
extern const OpDef
    kSlice;  ///< slice(self) {dim, start, size, step}: size elements from start by step
extern const OpDef kDynamicSlice;  ///< dynamic_slice(self, Scalar start) {dim, size, step}
extern const OpDef
    kUpdateSlice;  ///< update_slice(self, source) {dim, start, step}: self with those written
extern const OpDef
    kDynamicUpdateSlice;  ///< dynamic_update_slice(self, source, Scalar start) {dim, step}
extern const OpDef kPad;  ///< pad_constant(self, Scalar value) {low, high}: negative amounts crop
extern const OpDef kConcat;  ///< concat(Tensor[] tensors) {dim}: equal dtypes, equal other dims
extern const OpDef kFlip;    ///< flip(self) {dims}
extern const OpDef
    kAsStrided;  ///< as_strided(self) {sizes, strides, offset}: elements of flattened self
extern const OpDef kAsStridedScatter;  ///< as_strided_scatter(self, source) {strides, offset}

// ---- reduce.cpp
extern const OpDef kReduceSum, kReduceProd, kReduceMax,
    kReduceMin;                             ///< reduce_*(self) {dims, keepdim}
extern const OpDef kReduceAny, kReduceAll;  ///< bool in, bool out
extern const OpDef kArgMax,
    kArgMin;               ///< arg_max(self) {dim, keepdim} : i64, first of equals, NaN wins
extern const OpDef kScan;  ///< scan(self) {kind: sum|prod|max|min, dim, reverse}: inclusive
extern const OpDef
    kReduceWindow;  ///< reduce_window(self) {kind: sum|max, window, stride, low, high, dilation}
extern const OpDef
    kReduceWindowArg;  ///< as above with max : i64 flat index in the last len(window) dims
extern const OpDef
    kMaxWindowBackward;  ///< a composite that backends may run whole: reduce_window's gradient

// ---- index.cpp
extern const OpDef kGather;  ///< gather(self, index) {dim}: PyTorch's; checks bounds
extern const OpDef
    kScatter;  ///< scatter(self, index, source) {dim, reduce: none|sum|prod|amax|amin}
extern const OpDef kIndexSelect;  ///< index_select(self, index) {dim}: index is 1-D; checks bounds
extern const OpDef
    kNonzeroBounded;       ///< nonzero_bounded(self) {size} : i64[size,rank], -1 past the count
extern const OpDef kSort;  ///< sort(self) {dim, descending, stable} : values, i64 indices; NaN last
extern const OpDef kTopK;  ///< topk(self) {k, dim, largest, sorted} : values, i64 indices

// ---- contract.cpp
extern const OpDef kDotGeneral;  ///< dot_general(a, b) {a_contract, b_contract, a_batch, b_batch}:
                                 ///< result dims: batch, free of a, free of b
extern const OpDef
    kConvolution;  ///< convolution(input, weight) {stride, padding, dilation, transposed,
                   ///< output_padding, groups}: NC* input, PyTorch's weight layout
extern const OpDef
    kConvolutionWeightBackward;  ///< a composite that backends may run whole: a gradient of it

// ---- factors.cpp: of the matrices in the last two dims
extern const OpDef kCholesky;  ///< linalg_cholesky(self) {upper}: reads that triangle; may fail
extern const OpDef kLu;  ///< lu_decompose(A) {op}: L and U, i32 pivots from 1, i64 rows of P.T @ A;
                         ///< fails for a singular matrix where `op` names who needs another one
extern const OpDef kQr;  ///< linalg_qr(A) {mode: reduced|complete}: Q, R
extern const OpDef kEigh;  ///< linalg_eigh(self) {UPLO}: ascending eigenvalues, vectors as columns
extern const OpDef kEig;  ///< linalg_eig(self): complex eigenvalues, vectors of length 1 as columns
extern const OpDef kSvd;  ///< linalg_svd(A) {full_matrices}: U, descending S, Vh
extern const OpDef kSolveTriangular;  ///< solve_triangular(A, B) {upper, transpose, unitriangular}:
                                      ///< X with A @ X == B; equal batches

// ---- fft.cpp: discrete Fourier transforms, scaled as `normalization` says (0: not, 1: by the root
// of the number of summed elements, 2: by that number)
extern const OpDef kFftC2C;  ///< fft_c2c(self) {dim: ints, normalization, forward}
extern const OpDef kFftR2C;  ///< fft_r2c(self) {dim, normalization}: of real numbers; size / 2 + 1
                             ///< frequencies, the others are conjugates
extern const OpDef
    kFftC2R;  ///< fft_c2r(self) {dim, normalization, size}: the backward transform to
              ///< `size` real numbers; imaginary parts that must be 0 are not read

// ---- control.cpp
extern const OpDef kCond;   ///< cond(predicate, Tensor[] operands) {then: Graph, otherwise: Graph}
extern const OpDef kWhile;  ///< while(Tensor[] carried) {condition: Graph, body: Graph}
extern const OpDef
    kLoop;  ///< loop(Tensor[] operands) {body: Graph, count, num_carried, num_stacked_in}:
            ///< operands are carried, stacked inputs, then invariants; the body gets
            ///< (i: i64[], carried, slices, invariants) and returns carried, then slices
extern const OpDef
    kCustomCall;  ///< custom_call(Tensor[] operands) {target: str, payload: str, types}

// ---- require.cpp
extern const OpDef kRequire;  ///< require(self, condition) {message}: self; fails with `message`
                              ///< unless all of the bool condition holds

// ---- barrier.cpp
extern const OpDef kBarrier;  ///< barrier(self, Tensor[] after): self, computed after the others

// ---- shape.cpp, call.cpp: composites that recording makes
extern const OpDef
    kDynamicSelect;        ///< dynamic_select(self, Scalar index) {dim}: the node of select
extern const OpDef kCall;  ///< call(Tensor[] operands) {body: Graph}: what a replayed graph returns

}  // namespace hammock::ops
