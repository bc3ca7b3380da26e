use serde::{Deserialize, Serialize};

use super::SettingError;

/// Where pages find themselves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geolocation {
    /// Degrees north of the equator.
    pub latitude: f64,
    /// Degrees east of Greenwich.
    pub longitude: f64,
    /// How far off both may be, in metres.
    #[serde(default)]
    pub accuracy: f64,
}

// What was checked holds numbers only.
impl Eq for Geolocation {}

impl Geolocation {
    /// Checks that it is a place on Earth.
    /// Errors: the first wrong member.
    pub fn check(self) -> Result<(), SettingError> {
        let members = [
            (".latitude", self.latitude, -90.0..=90.0, "must be from -90 to 90 degrees"),
            (".longitude", self.longitude, -180.0..=180.0, "must be from -180 to 180 degrees"),
            (".accuracy", self.accuracy, 0.0..=f64::MAX, "must be 0 metres or more"),
        ];
        match members.into_iter().find(|(_, value, range, _)| !range.contains(value)) {
            None => Ok(()),
            Some((place, _, _, reason)) => {
                Err(SettingError { setting: "geolocation", place: place.to_owned(), reason: reason.to_owned() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_on_earth() {
        let place = Geolocation { latitude: -90.0, longitude: 180.0, accuracy: 0.5 };
        assert!(place.check().is_ok());
        for (wrong, member) in [
            (Geolocation { latitude: 90.1, ..place }, ".latitude"),
            (Geolocation { latitude: f64::NAN, ..place }, ".latitude"),
            (Geolocation { longitude: -181.0, ..place }, ".longitude"),
            (Geolocation { accuracy: -1.0, ..place }, ".accuracy"),
            (Geolocation { accuracy: f64::INFINITY, ..place }, ".accuracy"),
        ] {
            assert_eq!(wrong.check().unwrap_err().place, member);
        }
    }
}
