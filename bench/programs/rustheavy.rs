// iterator/closure/generic heavy Rust: deep inlining with std debug info.
use std::collections::{BTreeMap, HashMap, BinaryHeap, VecDeque};
use std::fmt::Write; use std::time::Instant; use std::cmp::Reverse;
trait Op { fn go(&self, x: u64) -> u64; }
struct A<const N: u64>; struct Bx<T: Op>(Box<T>);
impl<const N: u64> Op for A<N> { fn go(&self, x: u64) -> u64 { x.rotate_left((N % 63) as u32).wrapping_mul(N | 1).checked_add(N).unwrap_or(7) } }
impl<T: Op> Op for Bx<T> { fn go(&self, x: u64) -> u64 { self.0.go(x) ^ self.0.go(x >> 3) } }
#[derive(Clone, Debug)] enum J { N, B(bool), F(f64), S(String), L(Vec<J>), O(BTreeMap<String, J>) }
fn ser(j: &J, o: &mut String) { match j { J::N => o.push_str("null"), J::B(b) => write!(o, "{}", b).unwrap(), J::F(f) => write!(o, "{:.3}", f).unwrap(), J::S(s) => write!(o, "{:?}", s).unwrap(),
  J::L(l) => { o.push('['); l.iter().enumerate().for_each(|(i, x)| { if i > 0 { o.push(',') } ser(x, o) }); o.push(']') }
  J::O(m) => { o.push('{'); for (i, (k, v)) in m.iter().enumerate() { if i > 0 { o.push(',') } write!(o, "{:?}:", k).unwrap(); ser(v, o) } o.push('}') } } }
fn gen(r: &mut u64, d: u32) -> J { *r ^= *r << 13; *r ^= *r >> 7; *r ^= *r << 17; match (*r % 6, d) { (0, _) => J::N, (1, _) => J::B(*r & 1 == 0), (2, _) | (_, 0) => J::F(*r as f64 / 1e6), (3, _) => J::S(format!("s{}", r)), (4, _) => J::L((0..4).map(|_| gen(r, d - 1)).collect()), _ => J::O((0..4).map(|i| (format!("k{}{}", i, *r % 100), gen(r, d - 1))).collect()) } }
fn dijkstra(n: usize, r: &mut u64) -> u64 { let g: Vec<Vec<(usize, u64)>> = (0..n).map(|_| (0..6).map(|_| { *r ^= *r << 13; *r ^= *r >> 7; *r ^= *r << 17; ((*r % n as u64) as usize, *r % 100) }).collect()).collect();
  let mut d = vec![u64::MAX; n]; let mut h = BinaryHeap::new(); d[0] = 0; h.push(Reverse((0u64, 0usize))); while let Some(Reverse((c, u))) = h.pop() { if c > d[u] { continue } for &(v, w) in &g[u] { let nc = c + w; if nc < d[v] { d[v] = nc; h.push(Reverse((nc, v))) } } } d.iter().filter(|x| **x != u64::MAX).sum() }
fn main() { let secs: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(5.0); let t = Instant::now(); let mut r = 88172645463325252u64; let mut sink = 0u64;
  let ops: Vec<Box<dyn Op>> = vec![Box::new(A::<3>), Box::new(Bx(Box::new(A::<77>))), Box::new(Bx(Box::new(Bx(Box::new(A::<1234567>)))))];
  while t.elapsed().as_secs_f64() < secs {
    sink = sink.wrapping_add((0..4000u64).map(|x| ops.iter().fold(x, |a, o| o.go(a))).fold(0, |a, b| a.wrapping_add(b)));
    let j = gen(&mut r, 6); let mut s = String::new(); ser(&j, &mut s); sink += s.len() as u64;
    let mut m: HashMap<String, Vec<usize>> = HashMap::new(); for (i, w) in s.split(|c: char| !c.is_alphanumeric()).enumerate() { m.entry(w.to_string()).or_default().push(i) }
    let mut v: Vec<_> = m.iter().map(|(k, v)| (v.len(), k.as_str())).collect(); v.sort_by(|a, b| b.cmp(a)); sink += v.first().map_or(0, |x| x.0 as u64);
    sink += dijkstra(600, &mut r); let q: VecDeque<u64> = (0..2000).map(|x| x * r % 1009).collect(); sink += q.iter().zip(q.iter().skip(1)).filter(|(a, b)| a < b).map(|(a, b)| b - a).sum::<u64>();
    let up: String = s.chars().rev().flat_map(|c| c.to_uppercase()).filter(|c| c.is_ascii()).collect(); sink += up.bytes().map(|b| b as u64).sum::<u64>();
  } println!("{}", sink); }
