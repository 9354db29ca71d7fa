// Bessel functions of order 0 and 1, of the first and second kind, and modified ones of the second.

#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "hammock/ops/elementwise.h"
#include "hammock/ops/polynomials.h"
#include "hammock/ops/special.h"
#include "ops/primitives/elementwise_kit.h"
#include "ops/primitives/families.h"
#include "trace/apply.h"

namespace hammock {

using namespace ops;  // NOLINT: records and the op writer's kit

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Note [Coefficients of Bessel functions]
// Polynomials in t from -1 to 1, the lowest power first: Chebyshev interpolations, computed with 50
// digits, of which terms below 1e-17 of the first are left out.
//   J  up to 5, t = 2 z / 25 - 1 of z = x^2: without the two zeros there, and for order 1 a factor
//   x Y  so, without 2/pi log(x) J; of order 1 also without -2/pi / x, and a factor x P  from 5 on,
//   t = 2 (5 / x)^2 - 1: J = sqrt(2 / pi x) (P cos(p) - Q sin(p)) and
//      Y = sqrt(2 / pi x) (P sin(p) + Q cos(p)) with the phase p = x - (2 order + 1) pi / 4
//   Q  so, times x
//   K  up to 2, t = z / 2 - 1: without log(x / 2) I, and of order 1 a factor 1 / x
//   KScaled  from 2 on, t = 4 / x - 1: times exp(x) sqrt(x)
// clang-format off
constexpr double kJ0[] = {
    0.0031873556303932387, -0.0019210870437164043, 0.00048768271776558413, -7.1217052405758531e-05,
    6.8549548471993727e-06, -4.7062916645706101e-07, 2.428622038025423e-08, -9.7814389467263539e-10,
    3.1637239891962719e-11, -8.4041847193947777e-13, 1.8688672744978886e-14, -3.5244911300872698e-16};
constexpr double kJ1[] = {
    0.0004323698734106474, -0.00020932672214860176, 4.42186880710148e-05, -5.5154944596019688e-06,
    4.6259792151649639e-07, -2.8111472529722005e-08, 1.3002918729585578e-09,
    -4.7428777957526431e-11, 1.4012939606655873e-12, -3.425082917113122e-14, 7.050885612374614e-16,
    -1.2377862900889621e-17};
constexpr double kY0[] = {
    0.4837248578102995, -0.43265582228551253, -0.47057636552972876, 0.38851639956570944,
    -0.11151682184328655, 0.017635345389338759, -0.0018028096665503853, 0.0001299462909208217,
    -6.9855043740770608e-06, 2.9142206889637085e-07, -9.7209552080454006e-09,
    2.6539975248625817e-10, -6.0499369472396501e-12, 1.1666039530746889e-13};
constexpr double kY1[] = {
    0.13974939033568806, 0.091086508384484441, -0.16312020358118715, 0.066346953547791077,
    -0.013433433740818165, 0.0016688031328635942, -0.00014141835794484212, 8.7330983048487745e-06,
    -4.1137780795312436e-07, 1.528890182573714e-08, -4.6013010745475043e-10, 1.1448943838049981e-11,
    -2.3977823416691829e-13, 4.2779076012476448e-15};
constexpr double kP0[] = {
    0.99863476590919908, -0.0013274931272004003, 3.4917305812543486e-05, -2.4599633214848912e-06,
    2.9759005474711905e-07, -5.0864323083839399e-08, 1.1058787126508455e-08,
    -2.8705436149232575e-09, 8.5373338989981707e-10, -2.8517945797296942e-10,
    1.0446084050144923e-10, -3.5386629228967748e-11, 1.2588002430248643e-11,
    -1.3637307914439566e-11, 8.357591428468511e-12, 3.4153115425728761e-12, -2.8395786688743523e-12,
    -2.2353911549120441e-12, 1.4342144484717672e-12};
constexpr double kQ0[] = {
    -0.12361496352611864, 0.0013142139729102479, -6.3387154425466007e-05, 6.2391131696556898e-06,
    -9.4098751768088479e-07, 1.8870297801035574e-07, -4.6398035440396124e-08,
    1.3296573119800334e-08, -4.2938063438634437e-09, 1.5282843631161895e-09,
    -5.8941423908136692e-10, 2.340473361283212e-10, -9.6847281806835867e-11, 6.5258767297445794e-11,
    -4.0331940939547722e-11, -1.605647555780834e-11, 1.9543132108622097e-11, 2.9761039229454061e-11,
    -2.4654455175376633e-11, -1.4357398193255749e-11, 1.1781243865914092e-11,
    4.3654360757736204e-12, -3.2387768388689405e-12};
constexpr double kP1[] = {
    1.0022906462560661, 0.0022414632139171912, -4.5782806531265707e-05, 2.9786211051441743e-06,
    -3.4667186514153773e-07, 5.7916678422140156e-08, -1.2403215219140042e-08,
    3.1849577586739448e-09, -9.3957514137334485e-10, 3.1177370741059359e-10,
    -1.1357643207946474e-10, 3.8451893184433864e-11, -1.3682028558855844e-11,
    1.4551592853265448e-11, -8.8787431736272453e-12, -3.5906738400843512e-12,
    2.9881368885935155e-12, 2.368522528186767e-12, -1.5168118526117829e-12};
constexpr double kQ1[] = {
    0.37304743317408018, -0.0018648496218413126, 7.8980941779432386e-05, -7.3699279478056243e-06,
    1.0798853942089243e-06, -2.1266740902835081e-07, 5.1641422798019427e-08,
    -1.4664229261320404e-08, 4.704141826870427e-09, -1.6641711306549605e-09, 6.2967496543652425e-10,
    -2.5293791309652674e-10, 1.3104614308463733e-10, -6.9620610962020453e-11,
    -6.8920504736314654e-12, 1.6645096069215528e-11, 3.9223397372601566e-11,
    -3.1287029494776293e-11, -1.8540816446843627e-11, 1.5067476218657278e-11,
    6.3493919055395879e-12, -4.5889763697526861e-12};
constexpr double kK0[] = {
    -0.30362077291575545, 0.34049732101338059, 0.071777010342405093, 0.0050533926431960922,
    0.0001828055582791554, 4.054506619949891e-06, 6.0933618941721145e-08, 6.6230132727944526e-10,
    5.4525646627725857e-12, 3.5186315158547221e-14};
constexpr double kK1[] = {
    0.88508828772958936, -0.33224095524031311, -0.24383852886774329, -0.027854235219771841,
    -0.001383168846618116, -3.8918690643716332e-05, -7.0811336915174082e-07,
    -9.0321275017406779e-09, -8.5336341685751417e-11, -6.2142716173295769e-13};
constexpr double kK0Scaled[] = {
    1.2185953385133905, -0.031071461824889519, 0.0030328918102753206, -0.00047976905676623143,
    9.9560547420294196e-05, -2.4735204561466906e-05, 7.0022456457556507e-06, -2.191177788015528e-06,
    7.4278012321900959e-07, -2.6890662472901614e-07, 1.02954317593912e-07, -4.1339230521043851e-08,
    1.7047535884249698e-08, -7.286380907337665e-09, 3.808399859919043e-09, -1.9309444875845705e-09,
    4.7575447057763742e-11, 1.7887095838476482e-10, 8.1339132054641143e-10, -5.5410514460656834e-10,
    -3.1199361296821048e-10, 2.213758097591008e-10, 1.0926983537268735e-10, -6.9104538756705711e-11};
constexpr double kK1Scaled[] = {
    1.363151890371342, 0.10334973775386523, -0.0055667298800745882, 0.0007357241549081501,
    -0.00013959021956272223, 3.284386555825453e-05, -8.9612073877500253e-06, 2.7300414335698028e-06,
    -9.0670876333713929e-07, 3.2298119177151824e-07, -1.2203186351938403e-07,
    4.8461952200091865e-08, -1.9817577141591116e-08, 8.4093875653617694e-09, -4.331939985658629e-09,
    2.1757782025837176e-09, -8.3362271959914559e-11, -1.7982138496175016e-10,
    -8.9085967109239058e-10, 6.0424822937828385e-10, 3.3867804167808003e-10,
    -2.3993765958994638e-10, -1.1931668393112158e-10, 7.5247954863539395e-11};
// clang-format on

struct Order {
  double first_zero, second_zero;  ///< squares of the zeros of J
  std::span<const double> j, y, p, q, k, k_scaled;
};
constexpr Order kOrders[] = {
    {5.7831859629467845, 30.471262343662086, kJ0, kY0, kP0, kQ0, kK0, kK0Scaled},
    {14.681970642123893, 49.218456321694604, kJ1, kY1, kP1, kQ1, kK1, kK1Scaled}};

Tensor Polynomial(std::span<const double> terms, const Tensor& t) {
  Tensor sum = ConstantLike(terms.back(), t);
  for (size_t i = terms.size() - 1; i > 0; --i) sum = sum * t + terms[i - 1];
  return sum;
}

/// J up to 5, where x may be negative.
Tensor NearFirst(int order, const Tensor& x) {
  const Order& o = kOrders[order];
  Tensor z = x * x;
  Tensor j = (z - o.first_zero) * (z - o.second_zero) * Polynomial(o.j, z * 0.08 - 1);
  return order == 0 ? j : x * j;
}

/// J, or Y, from 5 on.
Tensor Far(int order, bool second, const Tensor& x) {
  const Order& o = kOrders[order];
  Tensor part = 5 * reciprocal(x), t = 2 * (part * part) - 1;
  Tensor p = Polynomial(o.p, t), q = Polynomial(o.q, t) * part * 0.2;
  // Cosine and sine of the phase, times sqrt(2).
  Tensor plus = cos(x) + sin(x), minus = sin(x) - cos(x);
  Tensor cosine = order == 0 ? plus : minus, sine = order == 0 ? minus : -plus;
  Tensor wave = second ? p * sine + q * cosine : p * cosine - q * sine;
  return where(eq(x, kInfinity), 0.0, wave * rsqrt(x * std::numbers::pi));
}

template <int kOrder>
std::vector<Tensor> ExpandFirst(const ExpandCall& call) {
  Tensor x = Wide(call, 0), size = abs(x);
  Tensor far = Far(kOrder, false, size);
  if (kOrder == 1) far = where(lt(x, 0), -far, far);
  return Narrow(call, where(le(size, 5), NearFirst(kOrder, x), far));
}

template <int kOrder>
std::vector<Tensor> ExpandSecond(const ExpandCall& call) {
  constexpr double kFactor = 2 / std::numbers::pi;
  Tensor x = Wide(call, 0);
  Tensor rest = Polynomial(kOrders[kOrder].y, x * x * 0.08 - 1);
  Tensor logarithm = log(x) * NearFirst(kOrder, x);
  Tensor near =
      kOrder == 0 ? rest + logarithm * kFactor : x * rest + (logarithm - reciprocal(x)) * kFactor;
  near = where(eq(x, 0), -kInfinity, near);
  return Narrow(call, where(le(x, 5), near, Far(kOrder, true, x)));
}

template <int kOrder, bool kScaled>
std::vector<Tensor> ExpandModified(const ExpandCall& call) {
  const Order& o = kOrders[kOrder];
  Tensor x = Wide(call, 0), part = clamp(x, 0.0, 2.0);
  Tensor first = exp(part) * (kOrder == 0 ? i0e(part) : i1e(part));
  Tensor rest = Polynomial(o.k, x * x * 0.5 - 1);
  Tensor near =
      kOrder == 0 ? rest - log(x * 0.5) * first : rest * reciprocal(x) + log(x * 0.5) * first;
  near = where(eq(x, 0), kInfinity, near);
  Tensor far = Polynomial(o.k_scaled, 4 * reciprocal(x) - 1) * rsqrt(x);
  return Narrow(call,
                where(le(x, 2), kScaled ? near * exp(x) : near, kScaled ? far : far * exp(-x)));
}

// ---- Gradients: those of the expansions would be NaN where a branch that is not chosen is
// infinite

/// f1 / x, 1/2 at 0, as of J.
Tensor DividedByX(const Tensor& f1, const Tensor& x) {
  Tensor zero = eq(x, 0);
  return where(zero, 0.5, f1 * reciprocal(where(zero, 1.0, x)));
}

template <Tensor (*kOther)(const Tensor&, Location)>
std::vector<Tensor> OrderZeroVjp(const VjpCall& c) {
  return {-c.grad() * kOther(c.in[0], Location())};
}
template <Tensor (*kOther)(const Tensor&, Location)>
std::vector<Tensor> OrderOneVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  return {c.grad() * (kOther(x, Location()) - DividedByX(c.out[0], x))};
}

std::vector<Tensor> K1Vjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  return {-c.grad() * (special_modified_bessel_k0(x) + c.out[0] * reciprocal(x))};
}
std::vector<Tensor> ScaledK0Vjp(const VjpCall& c) {
  return {c.grad() * (c.out[0] - special_scaled_modified_bessel_k1(c.in[0]))};
}
std::vector<Tensor> ScaledK1Vjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  return {c.grad() * (c.out[0] - special_scaled_modified_bessel_k0(x) - c.out[0] * reciprocal(x))};
}

#define HAMMOCK_BESSEL(name, about, expansion, gradient, low) \
  constinit const OpDef k_##name = {                          \
      .schema = "special_" #name "(Tensor self) -> Tensor",   \
      .doc = about,                                           \
      .call = Box<special_##name>,                            \
      .rule = DTypeRule::kFloat,                              \
      .expand = expansion,                                    \
      .vjp = gradient,                                        \
      .domain = {.lo = low, .hi = 9.0},                       \
  };
HAMMOCK_BESSEL(bessel_j0, "Bessel function of the first kind, order 0.", ExpandFirst<0>,
               OrderZeroVjp<special_bessel_j1>, -9.0)
HAMMOCK_BESSEL(bessel_j1, "Bessel function of the first kind, order 1.", ExpandFirst<1>,
               OrderOneVjp<special_bessel_j0>, -9.0)
HAMMOCK_BESSEL(bessel_y0, "Bessel function of the second kind, order 0.", ExpandSecond<0>,
               OrderZeroVjp<special_bessel_y1>, 0.2)
HAMMOCK_BESSEL(bessel_y1, "Bessel function of the second kind, order 1.", ExpandSecond<1>,
               OrderOneVjp<special_bessel_y0>, 0.2)
HAMMOCK_BESSEL(modified_bessel_k0, "Modified Bessel function of the second kind, order 0.",
               (ExpandModified<0, false>), OrderZeroVjp<special_modified_bessel_k1>, 0.2)
HAMMOCK_BESSEL(modified_bessel_k1, "Modified Bessel function of the second kind, order 1.",
               (ExpandModified<1, false>), K1Vjp, 0.2)
HAMMOCK_BESSEL(scaled_modified_bessel_k0, "exp(self) * special_modified_bessel_k0(self).",
               (ExpandModified<0, true>), ScaledK0Vjp, 0.2)
HAMMOCK_BESSEL(scaled_modified_bessel_k1, "exp(self) * special_modified_bessel_k1(self).",
               (ExpandModified<1, true>), ScaledK1Vjp, 0.2)
#undef HAMMOCK_BESSEL

}  // namespace

#define HAMMOCK_BESSEL(name) \
  Tensor special_##name(const Tensor& self, Location at) { return ApplyUnary(k_##name, at, self); }
HAMMOCK_BESSEL(bessel_j0)
HAMMOCK_BESSEL(bessel_j1)
HAMMOCK_BESSEL(bessel_y0)
HAMMOCK_BESSEL(bessel_y1)
HAMMOCK_BESSEL(modified_bessel_k0)
HAMMOCK_BESSEL(modified_bessel_k1)
HAMMOCK_BESSEL(scaled_modified_bessel_k0)
HAMMOCK_BESSEL(scaled_modified_bessel_k1)
#undef HAMMOCK_BESSEL

std::span<const OpDef* const> ops::BesselOps() {
  static constexpr const OpDef* kOps[] = {&k_bessel_j0,
                                          &k_bessel_j1,
                                          &k_bessel_y0,
                                          &k_bessel_y1,
                                          &k_modified_bessel_k0,
                                          &k_modified_bessel_k1,
                                          &k_scaled_modified_bessel_k0,
                                          &k_scaled_modified_bessel_k1};
  return kOps;
}

}  // namespace hammock
