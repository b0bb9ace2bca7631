// What only the landing page says, in both languages.

import { addTexts } from './i18n.js';

addTexts({
	'en': {
		'landing.title': 'Desk',
		'landing.lead': 'A customer-service chat server that is running on this machine.',
		'landing.customer': 'Customer page',
		'landing.customerHint': 'Write as a visitor. The assistant answers; ask for a person to reach an agent.',
		'landing.console': 'Agent console',
		'landing.consoleHint': 'Log in with the account that was printed when the server started first.',
		'landing.tip': 'Open both, side by side, to see a conversation from both ends.',
	},
	'zh-CN': {
		'landing.title': 'Desk',
		'landing.lead': '正在这台机器上运行的客服聊天服务器。',
		'landing.customer': '客户页面',
		'landing.customerHint': '以访客身份发消息。先由助手回答，也可以请求人工客服。',
		'landing.console': '客服工作台',
		'landing.consoleHint': '使用服务器首次启动时打印的账号登录。',
		'landing.tip': '同时打开两个页面，就能看到对话的两端。',
	},
});
