/* Starts the shell: one browser, one page, ready for commands. */
#include "shell.h"

#include <stdlib.h>

static WebKitWebContext *make_context(const char *home, const char *egress) {
  g_autofree char *data = g_build_filename(home, "data", NULL);
  g_autofree char *cache = g_build_filename(home, "cache", NULL);
  g_autoptr(WebKitWebsiteDataManager) manager =
      webkit_website_data_manager_new("base-data-directory", data, "base-cache-directory", cache, NULL);
  WebKitWebContext *context = webkit_web_context_new_with_website_data_manager(manager);
  /* The only way out, also for what a page asks of loopback. */
  WebKitNetworkProxySettings *proxy = webkit_network_proxy_settings_new(egress, NULL);
  webkit_website_data_manager_set_network_proxy_settings(manager, WEBKIT_NETWORK_PROXY_MODE_CUSTOM, proxy);
  webkit_network_proxy_settings_free(proxy);
  webkit_web_context_set_automation_allowed(context, TRUE);
  /* The language of a browser that nobody told another. Without it pages would see that of the container: "C". */
  static const char *const languages[] = {"en-US", NULL};
  webkit_web_context_set_preferred_languages(context, languages);
  webkit_web_context_set_spell_checking_enabled(context, FALSE);
  return context;
}

static WebKitSettings *make_settings(void) {
  WebKitSettings *settings = webkit_settings_new();
  /* Lets the inspector attach. */
  webkit_settings_set_enable_developer_extras(settings, TRUE);
  webkit_settings_set_javascript_can_open_windows_automatically(settings, TRUE);
  return settings;
}

int main(int argc, char **argv) {
  static char *home, *downloads, *egress;
  static int width = 1280, height = 800;
  const GOptionEntry options[] = {
      {"home", 0, 0, G_OPTION_ARG_FILENAME, &home, "Directory for what pages store", "DIR"},
      {"downloads", 0, 0, G_OPTION_ARG_FILENAME, &downloads, "Directory for downloads", "DIR"},
      {"egress", 0, 0, G_OPTION_ARG_STRING, &egress, "Proxy for everything that pages ask for", "URL"},
      {"width", 0, 0, G_OPTION_ARG_INT, &width, "Width of a page in pixels", "N"},
      {"height", 0, 0, G_OPTION_ARG_INT, &height, "Height of a page in pixels", "N"},
      {0},
  };
  g_autoptr(GError) error = NULL;
  if (!gtk_init_with_args(&argc, &argv, NULL, options, NULL, &error)) {
    g_printerr("%s\n", error->message);
    return EXIT_FAILURE;
  }
  if (!home || !downloads || !egress) {
    g_printerr("--home, --downloads and --egress are wanted\n");
    return EXIT_FAILURE;
  }

  command_open_answers();

  Shell shell = {
      .context = make_context(home, egress),
      .settings = make_settings(),
      .content = webkit_user_content_manager_new(),
      .downloads = downloads,
      .width = width,
      .height = height,
  };
  download_watch(&shell);
  window_watch_automation(&shell);
  window_open(&shell, NULL, FALSE);
  command_listen(&shell);
  gtk_main();
  return EXIT_SUCCESS;
}
