/* Starts the shell: one browser, one page, ready for commands. */
#include "shell.h"

#include <stdlib.h>

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
      .settings = make_settings(),
      .content = webkit_user_content_manager_new(),
      .downloads = downloads,
      .width = width,
      .height = height,
  };
  context_open(&shell, home, egress);
  window_open(&shell, NULL, FALSE);
  command_listen(&shell);
  gtk_main();
  /* What is to be kept is written by another process, once this one has closed its connection. */
  return EXIT_SUCCESS;
}
