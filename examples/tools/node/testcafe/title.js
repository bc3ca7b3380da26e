import { Selector } from 'testcafe';

fixture('a page').page(process.env.PAGE);

test('has a title', async () => {
  console.log('title:', await Selector('title').innerText);
});
