//! From a display's pixels to what a video encoder takes.

use std::ops::Range;

/// A picture in three planes (I420, BT.601): brightness for each pixel, colours for each square of four.
pub(super) struct Picture {
    width: usize,
    height: usize,
    planes: Vec<u8>,
}

impl Picture {
    /// A black picture.
    pub(super) fn new(width: usize, height: usize) -> Self {
        let squares = width.div_ceil(2) * height.div_ceil(2);
        let mut planes = vec![16; width * height];
        planes.resize(width * height + 2 * squares, 128);
        Self { width, height, planes }
    }

    /// The planes, one behind the other.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.planes
    }

    /// Takes over the rows of pixels (blue, green, red, nothing) that changed.
    pub(super) fn convert(&mut self, pixels: &[u8], rows: Range<usize>) {
        let (width, height) = (self.width, self.height);
        let (across, down) = (width.div_ceil(2), height.div_ceil(2));
        let (brightness, colours) = self.planes.split_at_mut(width * height);
        let (blues, reds) = colours.split_at_mut(across * down);
        for pair in rows.start / 2..rows.end.div_ceil(2).min(down) {
            for row in pair * 2..(pair * 2 + 2).min(height) {
                let from = &pixels[row * width * 4..(row + 1) * width * 4];
                let to = &mut brightness[row * width..(row + 1) * width];
                for (pixel, to) in from.chunks_exact(4).zip(to) {
                    let [b, g, r] = [pixel[0], pixel[1], pixel[2]].map(i32::from);
                    *to = byte(((66 * r + 129 * g + 25 * b + 128) >> 8) + 16);
                }
            }
            // One pixel stands for its square: text stays as sharp as it was, and this is done a million times a frame.
            let from = &pixels[pair * 2 * width * 4..(pair * 2 + 1) * width * 4];
            let at = pair * across..(pair + 1) * across;
            for ((pixel, blue), red) in from.chunks(8).zip(&mut blues[at.clone()]).zip(&mut reds[at]) {
                let [b, g, r] = [pixel[0], pixel[1], pixel[2]].map(i32::from);
                *blue = byte(((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128);
                *red = byte(((112 * r - 94 * g - 18 * b + 128) >> 8) + 128);
            }
        }
    }
}

fn byte(value: i32) -> u8 {
    u8::try_from(value.clamp(0, 255)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_television() {
        // Known values of BT.601: white, black, red, and blue in an odd corner.
        let pixels = [[255, 255, 255, 0], [0, 0, 0, 0], [0, 0, 255, 0]].concat();
        let mut picture = Picture::new(3, 1);
        picture.convert(&pixels, 0..1);
        assert_eq!(picture.bytes(), [235, 16, 82, 128, 90, 128, 240]);
    }

    #[test]
    fn only_what_changed_is_taken() {
        let mut picture = Picture::new(2, 4);
        let white = vec![255; 2 * 4 * 4];
        picture.convert(&white, 3..4);
        assert_eq!(picture.bytes()[..8], [16, 16, 16, 16, 235, 235, 235, 235]);
        picture.convert(&white, 0..0);
        assert_eq!(picture.bytes()[..4], [16; 4]);
    }
}
