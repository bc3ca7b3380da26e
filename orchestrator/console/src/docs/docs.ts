// The description of the interface, for people. The key that a user enters stays in this page's memory.

import SwaggerUIBundle from 'swagger-ui-dist/swagger-ui-es-bundle.js';

const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();

SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#docs',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  displayOperationId: false,
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: false,
  showCommonExtensions: true,
  validatorUrl: null,
  onComplete: () => document.getElementById('docs')?.removeAttribute('aria-busy'),
});
