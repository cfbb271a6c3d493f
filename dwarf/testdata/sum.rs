use std::collections::HashMap;

trait Shape {
    fn area(&self) -> f64;
}

struct Square(f64);

impl Shape for Square {
    #[inline(always)]
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}

#[inline(never)]
fn total(v: &[Square]) -> f64 {
    v.iter().map(|s| s.area()).filter(|a| *a > 1.0).sum()
}

fn main() {
    let mut m = HashMap::new();
    for i in 0..100u32 {
        m.entry(i % 7).or_insert_with(Vec::new).push(Square(i as f64));
    }
    let mut s = 0.0;
    for v in m.values() {
        s += total(v);
    }
    println!("{}", s);
}
