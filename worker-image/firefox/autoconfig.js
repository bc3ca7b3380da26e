// Has Firefox read warmpool.cfg, as plain text and with the browser's own rights.
pref("general.config.filename", "warmpool.cfg");
pref("general.config.obscure_value", 0);
pref("general.config.sandbox_enabled", false);
