Feature('title');

Scenario('a page has one', async ({ I }) => {
  await I.amOnPage('/');
  console.log('title:', await I.grabTitle());
});
